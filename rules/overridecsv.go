package rules

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/printable"
)

// overrideColumns are the columns of overrides as CSV beside those of identities.
var overrideColumns = []string{"rule", "times", "bands", "until", "reason"}

// ParseOverrides reads overrides of a rule set as CSV. The first line names the columns: rule,
// times or bands (as JSON), until (such as 2027-01-31T00:00:00Z), reason, and a column for each
// part of an identity, such as userId or attr:tenant. An empty field is not set.
//
// The error names a line and a column. It shows no values, which may be secrets.
func ParseOverrides(r io.Reader, ruleSet string) (all []Override, err error) {
	in := csv.NewReader(r)
	columns, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("the first line must name the columns: %w", err)
	}
	columns[0] = strings.TrimPrefix(columns[0], "\ufeff") // which spreadsheets write
	for i, name := range columns {
		if slices.Contains(columns[:i], name) || !slices.Contains(overrideColumns, name) && !isKeyField(name) {
			return nil, fmt.Errorf("line 1: column %s is there twice, or neither %s nor a part of an identity such as attr:tenant",
				printable.Quote(name), strings.Join(overrideColumns, ", "))
		}
	}
	for {
		fields, err := in.Read()
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		case len(all) == MaxOverrides:
			return nil, ErrTooManyOverrides
		}
		o, err := parseOverride(columns, fields, ruleSet)
		if err != nil {
			line, _ := in.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		all = append(all, o)
	}
}

// parseOverride reads a line.
func parseOverride(columns, fields []string, ruleSet string) (o Override, err error) {
	o = Override{RuleSetID: ruleSet, Identity: map[string]string{}}
	for i, text := range fields {
		switch column := columns[i]; {
		case text == "":
		case column == "rule":
			o.RuleID = text
		case column == "times":
			o.Times, err = ParseTimes(text)
		case column == "bands":
			o.Bands, err = ParseBands(text)
		case column == "until":
			if o.Until, err = time.Parse(time.RFC3339, text); err != nil {
				err = errors.New("must be a moment such as 2027-01-31T00:00:00Z")
			}
		case column == "reason":
			o.Reason = text
		default:
			o.Identity[column] = text
		}
		if err != nil {
			return o, fmt.Errorf("column %s: %w", columns[i], err)
		}
	}
	err = o.Check() // which replaces secrets
	return o, err
}

// ParseBands reads the bands of an override as a JSON list.
func ParseBands(text string) (bands []Band, err error) {
	var list []any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if !json.Valid([]byte(text)) || decoder.Decode(&list) != nil || len(list) == 0 {
		return nil, errors.New(`must be a JSON list of bands, such as [{"capacity": 10, "refill": "1s"}]`)
	}
	var found problems
	in := &object{reporter: reporter{found: &found}, fields: map[string]any{"bands": list}, written: true}
	for _, b := range in.objects("bands", bucket.MaxBands) {
		bands = append(bands, decodeBand(b, ""))
	}
	if len(found.all) > 0 {
		p := found.all[0]
		if p.Code == CodeInvalidValue { // such as money: a text of another type could be an API key
			return nil, errors.New(p.String())
		}
		return nil, fmt.Errorf("%s is not valid", p.Path)
	}
	return bands, nil
}
