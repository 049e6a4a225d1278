package mongorules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate/rules"
)

// MongoDB's limits are 16 MiB and 100 levels.
const maxBSON, maxDepth = 15 << 20, 90

// ruleDocument is the document that a rule should have.
type ruleDocument struct {
	document
	from   rules.Rule
	fields bson.D // without _id, revision and checksum
}

// encodeRules returns the documents of a rule set, or the values that MongoDB cannot
// represent as problems.
func encodeRules(set *rules.Set) (documents []ruleDocument, err error) {
	if set == nil {
		return nil, nil
	}
	var found []rules.Problem
	for r := range set.Rules() {
		w := encodeRule(r)
		for _, p := range w.problems {
			p.Path = append(rules.Path{"rules", len(documents)}, p.Path...)
			found = append(found, p)
		}
		documents = append(documents, w)
	}
	if len(found) > 0 {
		return nil, &rules.ValidationError{RuleSetID: set.ID(), Problems: found[:min(len(found), maxProblems)]}
	}
	return documents, nil
}

// encodeRule converts the JSON of a rule to a document. The driver's encoder would
// round numbers, cannot encode networks, and does not check names.
func encodeRule(r rules.Rule) ruleDocument {
	text, err := r.MarshalJSON()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	fields, _ := encodeNext(decoder).(bson.D)
	times := map[string]time.Time{"createdAt": r.CreatedAt, "updatedAt": r.UpdatedAt, "until": r.Until}
	for i, e := range fields {
		if at, ok := times[e.Key]; ok {
			fields[i].Value = bson.NewDateTimeFromTime(at)
		}
	}
	var raw bson.Raw
	if err == nil {
		raw, err = bson.Marshal(fields)
	}
	if err == nil && len(raw) > maxBSON {
		err = fmt.Errorf("has %d bytes as a MongoDB document, at most %d can be kept", len(raw), maxBSON)
	}
	if err != nil {
		return ruleDocument{document: document{problems: problemsOf(err)}}
	}
	return ruleDocument{readDocument(raw), r, fields}
}

// encodeNext converts the next value of valid JSON to BSON.
func encodeNext(decoder *json.Decoder) any {
	token, _ := decoder.Token()
	switch start := token.(type) {
	case json.Number:
		return encodeNumber(start.String())
	case json.Delim:
		fields, list := bson.D{}, bson.A{}
		for decoder.More() {
			if start == '[' {
				list = append(list, encodeNext(decoder))
				continue
			}
			name, _ := decoder.Token()
			fields = append(fields, bson.E{Key: mongoName(fmt.Sprint(name)), Value: encodeNext(decoder)})
		}
		_, _ = decoder.Token() // the closing bracket
		if start == '[' {
			return list
		}
		return fields
	}
	return token
}

// encodeNumber converts a JSON number to an int64 or a double if one of them has
// exactly that value, otherwise to a string.
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
	if rest, ok := strings.CutPrefix(name, "$"); ok {
		return "%24" + encodeName.Replace(rest)
	}
	return cmp.Or(encodeName.Replace(name), "%")
}

// plainName reverses mongoName.
func plainName(name string) string {
	if name == "%" {
		return ""
	}
	return decodeName.Replace(name)
}

// longKey returns the _id of a rule's document if the rule id is in use.
func longKey(ruleSetID, ruleID string) string { return ruleSetID + "/" + ruleID }

// insertion returns the document of a rule that has none.
func (w *ruleDocument) insertion(h *head, long bool) bson.D {
	key := w.id
	if long {
		key = longKey(h.ID, w.id)
	}
	fields := append(bson.D{{Key: "_id", Value: key}}, w.fields...)
	return append(fields, bson.E{Key: revisionField, Value: h.Revision}, bson.E{Key: checksumField, Value: w.sum})
}

// rewrite returns the update of a document to what it should be. Unknown fields are
// kept, and so is the spelling of a document with the same meaning, unless it has
// an API key in plain text.
func rewrite(d document, revision int64) bson.M {
	w := d.want
	set, unset := bson.M{revisionField: revision, checksumField: w.sum}, bson.M{}
	if d.sum != w.sum || d.showsKey() {
		for _, name := range ruleFields {
			old, err := d.raw.LookupErr(name)
			if i := slices.IndexFunc(w.fields, func(e bson.E) bool { return e.Key == name }); i >= 0 {
				set[name] = keepUnknown(name, old, w.fields[i].Value)
			} else if err == nil {
				unset[name] = ""
			}
		}
	}
	update := bson.M{"$set": set}
	if len(unset) > 0 {
		update["$unset"] = unset
	}
	return update
}

// nestedFields are the known fields inside of a field.
var nestedFields = map[string][]string{
	"when":  fieldsOf[rules.When](),
	"bands": append(fieldsOf[rules.BandDocument](), "windowSeconds"),
}

// keepUnknown copies unknown fields of the old value of a field to the new one.
// Bands are matched by label, or by position without labels.
func keepUnknown(name string, old bson.RawValue, value any) any {
	known := nestedFields[name]
	switch fields := value.(type) {
	case bson.D:
		var before bson.D
		if known != nil && old.Unmarshal(&before) == nil {
			before = slices.DeleteFunc(before, func(e bson.E) bool { return slices.Contains(known, e.Key) })
			return slices.Concat(fields, before)
		}
	case bson.A:
		var before []bson.Raw
		if known == nil || old.Unmarshal(&before) != nil {
			break
		}
		list := slices.Clone(fields)
		for i, band := range list {
			for j, b := range before {
				if label := labelOf(band); label == labelOf(b) && (label != "" || i == j) {
					list[i] = keepUnknown(name, bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: b}, band)
				}
			}
		}
		return list
	}
	return value
}

// labelOf returns the label of a band, empty if it has none.
func labelOf(band any) string {
	raw, _ := bson.Marshal(band)
	label, _ := bson.Raw(raw).Lookup("label").StringValueOK()
	return label
}
