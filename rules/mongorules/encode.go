package mongorules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate"
)

// maxBSON is how large a document may be; MongoDB's bound is 16 MiB.
const maxBSON = 15 << 20

// ruleDocument is the document that a rule should have.
type ruleDocument struct {
	id     string
	from   fluxgate.Rule
	fields bson.D // without _id, revision and checksum
	text   []byte // the rule as it is read from the document, as JSON
	sum    string // the checksum of that
}

// encodeRules makes the documents of a rule set, or says what MongoDB cannot
// hold.
func encodeRules(set *fluxgate.RuleSet) ([]ruleDocument, error) {
	if set == nil {
		return nil, nil
	}
	documents := make([]ruleDocument, 0, set.Len())
	var found []fluxgate.Problem
	for r := range set.Rules() {
		w, problems := encodeRule(r)
		for _, p := range problems {
			place := fmt.Sprintf("rules[%d]", len(documents))
			if p.Place != "" {
				place += "." + p.Place
			}
			found = append(found, fluxgate.Problem{Place: place, Message: p.Message})
		}
		documents = append(documents, w)
	}
	if len(found) > 0 {
		return nil, &fluxgate.ValidationError{RuleSetID: set.ID(), Problems: found[:min(len(found), maxProblems)]}
	}
	return documents, nil
}

// encodeRule makes the document of a rule from its JSON. The driver's own
// encoder would round numbers and does not know which names MongoDB refuses.
func encodeRule(r fluxgate.Rule) (ruleDocument, []fluxgate.Problem) {
	w := ruleDocument{id: r.ID, from: r}
	text, err := r.MarshalJSON()
	if err != nil {
		return w, problemsOf(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	value, err := encodeValue(decoder)
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
	if err != nil {
		return w, problemsOf(err)
	}
	if len(raw) > maxBSON {
		return w, []fluxgate.Problem{{Message: fmt.Sprintf("has %d bytes as a MongoDB document, at most %d can be kept", len(raw), maxBSON)}}
	}
	_, problems := decodeDocument(raw)
	read := readDocument(raw)
	if len(problems) == 0 {
		problems = read.problems
	}
	w.text, w.sum = read.text, read.sum
	return w, problems
}

// encodeValue turns the next JSON value into BSON.
func encodeValue(decoder *json.Decoder) (any, error) {
	token, err := decoder.Token()
	if number, ok := token.(json.Number); ok {
		return encodeNumber(number.String()), nil
	}
	start, ok := token.(json.Delim)
	if err != nil || !ok {
		return token, err
	}
	fields, list := bson.D{}, bson.A{}
	for decoder.More() {
		var name any
		if start == '{' {
			if name, err = decoder.Token(); err != nil {
				return nil, err
			}
		}
		value, err := encodeValue(decoder)
		if err != nil {
			return nil, err
		}
		if start == '{' {
			fields = append(fields, bson.E{Key: mongoName(fmt.Sprint(name)), Value: value})
		} else {
			list = append(list, value)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if start == '{' {
		return fields, nil
	}
	return list, nil
}

// insertion is the document of a rule that has none.
func insertion(key string, w ruleDocument, revision int64) bson.D {
	fields := append(bson.D{{Key: "_id", Value: key}}, w.fields...)
	return append(fields, bson.E{Key: revisionField, Value: revision}, bson.E{Key: checksumField, Value: w.sum})
}

// rewrite is the update that makes a document say what it should. It changes
// only fields that say something else or show an API key, so that what others
// have added and how they spell things stays.
func rewrite(d document, w ruleDocument, revision int64) bson.D {
	set := bson.D{{Key: revisionField, Value: revision}, {Key: checksumField, Value: w.sum}}
	unset := bson.D{}
	same := sameFields(d.text, w.text)
	for _, group := range fieldGroups {
		if same(group...) && (!d.exposed || group[0] != "when") {
			continue
		}
		for _, name := range group {
			old, err := d.raw.LookupErr(name)
			if i := slices.IndexFunc(w.fields, func(e bson.E) bool { return e.Key == name }); i >= 0 {
				set = append(set, bson.E{Key: name, Value: keepUnknown(name, old, w.fields[i].Value)})
			} else if err == nil {
				unset = append(unset, bson.E{Key: name, Value: ""})
			}
		}
	}
	update := bson.D{{Key: "$set", Value: set}}
	if len(unset) > 0 {
		update = append(update, bson.E{Key: "$unset", Value: unset})
	}
	return update
}

// The names inside of when and of a band that have a meaning.
var (
	whenNames = []string{"hosts", "excludePaths", "headers", "attributes", "ips", "users", "apiKeys"}
	bandNames = []string{"label", "capacity", "refillTokens", "refillSeconds", "refill", "windowSeconds", "kind"}
)

// keepUnknown adds to a new value of a field what others have added to the old
// one. A band is the same if its label is, or without labels its position.
func keepUnknown(name string, old bson.RawValue, value any) any {
	switch name {
	case "when":
		var before bson.D
		if fields, ok := value.(bson.D); ok && old.Unmarshal(&before) == nil {
			return withUnknown(fields, before, whenNames)
		}
	case "bands":
		var before []bson.D
		bands, _ := value.(bson.A)
		if old.Unmarshal(&before) != nil {
			break
		}
		for i := range bands {
			band, _ := bands[i].(bson.D)
			label := labelOf(band)
			j := slices.IndexFunc(before, func(b bson.D) bool { return labelOf(b) == label })
			if label == "" {
				j = i
			}
			if j >= 0 && j < len(before) && labelOf(before[j]) == label {
				bands[i] = withUnknown(band, before[j], bandNames)
			}
		}
	}
	return value
}

func withUnknown(fields, before bson.D, known []string) bson.D {
	fields = slices.Clone(fields)
	for _, e := range before {
		if !slices.Contains(known, e.Key) {
			fields = append(fields, e)
		}
	}
	return fields
}

func labelOf(band bson.D) string {
	for _, e := range band {
		if e.Key == "label" {
			label, _ := e.Value.(string)
			return label
		}
	}
	return ""
}
