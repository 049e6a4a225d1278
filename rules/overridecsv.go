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
var overrideColumns = []string{"ruleSet", "rule", "times", "bands", "until", "reason"}

// ParseOverrides reads overrides as CSV. The first line names the columns: rule, times or
// bands (as JSON), until (such as 2027-01-31T00:00:00Z), reason, and a column for each part of
// an identity, such as userId or attr:tenant. An empty field is not set. A column ruleSet is
// for overrides of other rule sets than the given one.
//
// The error is a [*ValidationError] that names lines and columns. It shows no values, which
// may be API keys.
func ParseOverrides(r io.Reader, ruleSet string) ([]Override, error) {
	in := overrideReader{csv: csv.NewReader(r), ruleSet: ruleSet, lines: map[string]int{}, counts: map[string]int{}}
	in.readColumns()
	for in.columns != nil && in.readLine() {
	}
	if err := in.found.err(ruleSet); err != nil {
		return nil, err
	}
	return in.overrides, nil
}

// overrideReader reads overrides as CSV.
type overrideReader struct {
	csv       *csv.Reader
	ruleSet   string
	columns   []string
	line      int
	found     problems
	overrides []Override
	lines     map[string]int // of overrides, by rule set and id
	counts    map[string]int // by rule set
}

func (in *overrideReader) refuse(column, format string, args ...any) {
	subject := fmt.Sprintf("line %d", in.line)
	if column != "" {
		subject += ", column " + column
	}
	in.found.all = append(in.found.all, Problem{Code: CodeInvalidValue, Subject: subject, Message: fmt.Sprintf(format, args...)})
}

// next reads a line. It returns nil at the end, and after an error that hides where lines end.
func (in *overrideReader) next() []string {
	for len(in.found.all) < maxProblems {
		fields, err := in.csv.Read()
		var syntax *csv.ParseError
		switch {
		case err == nil:
			in.line, _ = in.csv.FieldPos(0)
			return fields
		case errors.Is(err, io.EOF):
			return nil
		case !errors.As(err, &syntax):
			in.refuse("", "%v", err)
			return nil
		}
		in.line = syntax.StartLine
		if !errors.Is(err, csv.ErrFieldCount) {
			in.refuse("", "is not CSV: %v in line %d, character %d", syntax.Err, syntax.Line, syntax.Column)
			return nil
		}
		in.refuse("", "has %d fields, the first line has %d", len(fields), len(in.columns))
	}
	return nil
}

func (in *overrideReader) readColumns() {
	in.line = 1
	columns := in.next()
	if len(columns) > 0 {
		columns[0] = strings.TrimPrefix(columns[0], "\ufeff") // which spreadsheets write
	}
	for i, name := range columns {
		switch {
		case slices.Contains(columns[:i], name):
			in.refuse(printable.Quote(name), "is there twice")
		case !slices.Contains(overrideColumns, name) && !isKeyField(name):
			in.refuse(printable.Quote(name), "is not known: it must be %s, or a part of an identity such as userId or attr:tenant",
				strings.Join(overrideColumns, ", "))
		}
	}
	if !slices.Contains(columns, "rule") && len(in.found.all) == 0 {
		in.refuse("rule", "is missing: the first line names the columns")
	}
	if len(in.found.all) == 0 {
		in.columns = columns
	}
}

// readLine reads an override and reports whether there may be more.
func (in *overrideReader) readLine() bool {
	fields := in.next()
	if fields == nil {
		return false
	}
	o, before := Override{RuleSetID: in.ruleSet, Identity: map[string]string{}}, len(in.found.all)
	for i, text := range fields {
		if text != "" {
			in.set(&o, in.columns[i], text)
		}
	}
	if len(in.found.all) > before {
		return true // the rest follows from it
	}
	var invalid *ValidationError
	if err := o.Check(); errors.As(err, &invalid) {
		for _, p := range invalid.Problems {
			in.refuse("bands", "%s", p)
		}
		return true
	} else if err != nil {
		in.refuse("", "%v", err)
		return true
	}
	key := o.RuleSetID + "/" + o.ID()
	if first, twice := in.lines[key]; twice {
		in.refuse("", "has the rule and the identity of line %d", first)
	}
	in.lines[key] = in.line
	if in.counts[o.RuleSetID]++; in.counts[o.RuleSetID] > MaxOverrides {
		in.refuse("", "%v", ErrTooManyOverrides)
		return false
	}
	in.overrides = append(in.overrides, o)
	return true
}

// set sets what a column is for.
func (in *overrideReader) set(o *Override, column, text string) {
	var err error
	switch column {
	case "ruleSet":
		o.RuleSetID = text
	case "rule":
		o.RuleID = text
	case "times":
		if o.Times, err = ParseTimes(text); err != nil {
			in.refuse(column, "must be a number above 0 with at most three decimal places, such as 1.5")
		}
	case "bands":
		if o.Bands, err = ParseBands(text); err != nil {
			in.refuse(column, "%v", err)
		}
	case "until":
		if o.Until, err = time.Parse(time.RFC3339, text); err != nil {
			in.refuse(column, "must be a moment such as 2027-01-31T00:00:00Z")
		}
	case "reason":
		o.Reason = text
	default:
		o.Identity[column] = text
	}
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
