package mongorules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate"
)

// MongoDB's bounds are 16 MiB and 100 levels.
const maxBSON, maxDepth = 15 << 20, 90

// ruleDocument is the document that a rule should have.
type ruleDocument struct {
	id     string
	from   fluxgate.Rule
	fields bson.D        // without _id, revision and checksum
	read   fluxgate.Rule // as it is read from the document
	sum    string        // the checksum of that
}

// encodeRules makes the documents of a rule set, or says what MongoDB cannot
// hold.
func encodeRules(set *fluxgate.RuleSet) (documents []ruleDocument, err error) {
	if set == nil {
		return nil, nil
	}
	var found []fluxgate.Problem
	for r := range set.Rules() {
		w, problems := encodeRule(r)
		for _, p := range problems {
			p.Path = append(fluxgate.Path{"rules", len(documents)}, p.Path...)
			found = append(found, p)
		}
		documents = append(documents, w)
	}
	if len(found) > 0 {
		return nil, &fluxgate.ValidationError{RuleSetID: set.ID(), Problems: found[:min(len(found), maxProblems)]}
	}
	return documents, nil
}

// encodeRule makes the document of a rule from its JSON. The driver's own
// encoder, with tags, would round numbers, cannot write networks, and does not
// know which names MongoDB refuses.
func encodeRule(r fluxgate.Rule) (ruleDocument, []fluxgate.Problem) {
	w := ruleDocument{id: r.ID, from: r}
	text, err := r.MarshalJSON()
	if err != nil {
		return w, problemsOf(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	value, err := encodeValue(decoder, 0)
	if err != nil {
		return w, problemsOf(err)
	}
	w.fields, _ = value.(bson.D)
	for i, e := range w.fields {
		switch e.Key {
		case "createdAt":
			w.fields[i].Value = bson.NewDateTimeFromTime(r.CreatedAt)
		case "updatedAt":
			w.fields[i].Value = bson.NewDateTimeFromTime(r.UpdatedAt)
		}
	}
	raw, err := bson.Marshal(w.fields)
	if err == nil && len(raw) > maxBSON {
		err = fmt.Errorf("has %d bytes as a MongoDB document, at most %d can be kept", len(raw), maxBSON)
	}
	if err != nil {
		return w, problemsOf(err)
	}
	read := readDocument(raw)
	w.read, w.sum = read.rule, read.sum
	return w, read.problems
}

// encodeValue turns the next JSON value into BSON.
func encodeValue(decoder *json.Decoder, depth int) (any, error) {
	token, err := decoder.Token()
	if number, ok := token.(json.Number); ok {
		return encodeNumber(number.String()), nil
	}
	start, ok := token.(json.Delim)
	if err != nil || !ok {
		return token, err
	}
	if depth > maxDepth {
		return nil, errors.New("is nested too deeply")
	}
	fields, list := bson.D{}, bson.A{}
	for decoder.More() {
		var name any
		if start == '{' {
			if name, err = decoder.Token(); err != nil {
				return nil, err
			}
		}
		value, err := encodeValue(decoder, depth+1)
		if err != nil {
			return nil, err
		}
		fields = append(fields, bson.E{Key: mongoName(fmt.Sprint(name)), Value: value})
		list = append(list, value)
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if start == '{' {
		return fields, nil
	}
	return list, nil
}

// encodeNumber is a JSON number as an int64 or a double, if one of them has
// exactly that decimal value, else as a string.
func encodeNumber(s string) any {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	const most = 64 // characters; no double needs more
	f, err := strconv.ParseFloat(s, 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(s), "e")
	if err != nil || len(s) > most || f == 0 && strings.ContainsAny(mantissa, "123456789") {
		return s
	}
	written, _ := new(big.Rat).SetString(s) // a number that fits a double has a small exponent
	shortest, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	if f == 0 || written.Cmp(shortest) == 0 || written.Cmp(new(big.Rat).SetFloat64(f)) == 0 {
		return f
	}
	return s
}

// Field names that are empty, have a dot or begin with a dollar sign are not
// accepted by every MongoDB version. They are percent-encoded.
var (
	encodeName = strings.NewReplacer("%", "%25", ".", "%2E", "\x00", "%00")
	decodeName = strings.NewReplacer("%25", "%", "%2E", ".", "%24", "$", "%00", "\x00")
)

func mongoName(name string) string {
	if name == "" {
		return "%"
	}
	if name[0] == '$' {
		return "%24" + encodeName.Replace(name[1:])
	}
	return encodeName.Replace(name)
}

// plainName undoes mongoName.
func plainName(name string) string {
	if name == "%" {
		return ""
	}
	return decodeName.Replace(name)
}

// insertion is the document of a rule that has none.
func insertion(key string, w ruleDocument, revision int64) bson.D {
	fields := append(bson.D{{Key: "_id", Value: key}}, w.fields...)
	return append(fields, bson.E{Key: revisionField, Value: revision}, bson.E{Key: checksumField, Value: w.sum})
}

// rewrite is the update that makes a document say what it should. Fields that
// FluxGate does not know stay, and so does the spelling of a document that says
// the same, unless that shows an API key.
func rewrite(d document, w ruleDocument, revision int64) bson.M {
	set, unset := bson.M{revisionField: revision, checksumField: w.sum}, bson.M{}
	if d.sum != w.sum || d.exposed {
		for _, name := range ruleFields {
			old, err := d.raw.LookupErr(name)
			if i := slices.IndexFunc(w.fields, func(e bson.E) bool { return e.Key == name }); i >= 0 {
				set[name] = keepUnknown(name, old, w.fields[i].Value)
			} else if err == nil {
				unset[name] = ""
			}
		}
	}
	if len(unset) == 0 {
		return bson.M{"$set": set}
	}
	return bson.M{"$set": set, "$unset": unset}
}

// nestedFields are what has a meaning inside of a field.
var nestedFields = map[string][]string{
	"when":  {"hosts", "excludePaths", "headers", "attributes", "ips", "users", "apiKeys"},
	"bands": {"label", "capacity", "refillTokens", "refillSeconds", "refill", "windowSeconds", "kind"},
}

// keepUnknown adds to a new value of a field what others have added to the old
// one. A band is the same if its label is, or without labels its position.
func keepUnknown(name string, old bson.RawValue, value any) any {
	var before []bson.D
	switch fields := value.(type) {
	case bson.D:
		before = make([]bson.D, 1)
		if name == "when" && old.Unmarshal(&before[0]) == nil {
			return withUnknown(name, fields, before[0])
		}
	case bson.A:
		if name != "bands" || old.Unmarshal(&before) != nil {
			break
		}
		list := slices.Clone(fields)
		for i := range list {
			band, _ := list[i].(bson.D)
			for j, b := range before {
				if label := labelOf(band); label == labelOf(b) && (label != "" || i == j) {
					list[i] = withUnknown(name, band, b)
				}
			}
		}
		return list
	}
	return value
}

func withUnknown(name string, fields, before bson.D) bson.D {
	fields = slices.Clone(fields)
	for _, e := range before {
		if !slices.Contains(nestedFields[name], e.Key) {
			fields = append(fields, e)
		}
	}
	return fields
}

func labelOf(band bson.D) (label string) {
	for _, e := range band {
		if e.Key == "label" {
			label, _ = e.Value.(string)
		}
	}
	return label
}
