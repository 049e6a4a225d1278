package mongorules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate"
)

// maxBSON is how large a document may be; MongoDB's bound is 16 MiB.
const maxBSON = 15 << 20

// projected is a rule as a document.
type projected struct {
	id     string
	fields bson.D        // without the two of ours
	rule   fluxgate.Rule // as it is read from the document
	sum    string        // its checksum
}

// project makes the documents of a rule set, or says what MongoDB cannot hold.
func project(set *fluxgate.RuleSet) ([]projected, error) {
	var docs []projected
	var found []fluxgate.Problem
	if set == nil {
		return nil, nil
	}
	for r := range set.Rules() {
		doc, problems := projectRule(r)
		for _, p := range problems {
			place := fmt.Sprintf("rules[%d]", len(docs))
			if p.Place != "" {
				place += "." + p.Place
			}
			found = append(found, fluxgate.Problem{Place: place, Message: p.Message})
		}
		docs = append(docs, doc)
	}
	if len(found) > 0 {
		return nil, &fluxgate.ValidationError{RuleSetID: set.ID(), Problems: found[:min(len(found), maxProblems)]}
	}
	return docs, nil
}

func projectRule(r fluxgate.Rule) (projected, []fluxgate.Problem) {
	var p projector
	doc := projected{id: r.ID, fields: p.rule(r)}
	if len(p.problems) > 0 {
		return doc, p.problems
	}
	raw, err := bson.Marshal(doc.fields)
	if err != nil {
		return doc, []fluxgate.Problem{{Message: err.Error()}}
	}
	if len(raw) > maxBSON {
		return doc, []fluxgate.Problem{{Message: fmt.Sprintf("has %d bytes as a MongoDB document, at most %d can be kept", len(raw), maxBSON)}}
	}
	read := readDocument(raw)
	if len(read.problems) > 0 {
		return doc, read.problems
	}
	doc.rule, doc.sum = read.rule, read.sum
	return doc, nil
}

// treeOf is the JSON of a rule as a tree.
func treeOf(r fluxgate.Rule) (map[string]any, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var tree map[string]any
	err = dec.Decode(&tree)
	return tree, err
}

// projector turns rules into BSON and notes what has no place there.
type projector struct{ converter }

// rule is the document of a rule, in the order that people know.
func (p *projector) rule(r fluxgate.Rule) bson.D {
	fields := fieldList{{Key: "_id", Value: r.ID}, {Key: "ruleSetId", Value: r.RuleSetID}}
	fields.oneOrMany("path", "paths", r.Paths)
	if r.IgnoreCase {
		fields.add("ignoreCase", true)
	}
	fields.oneOrMany("method", "methods", r.Methods)
	if when := p.when(r.When); len(when) > 0 {
		fields.add("when", when)
	}
	fields.text("limitScope", string(r.Scope))
	fields.add("compositeKeyFields", orNull(r.KeyFields))
	if len(r.Bands) > 0 {
		bands := make(bson.A, len(r.Bands))
		for i, b := range r.Bands {
			bands[i] = projectBand(b)
		}
		fields.add("bands", bands)
	}
	fields.add("priority", int64(r.Priority))
	fields.text("group", r.Group)
	fields.text("action", string(r.Action))
	fields.add("enabled", !r.Disabled)
	fields.text("onLimitExceed", string(r.OnLimitExceed))
	fields.text("mode", string(r.Mode))
	fields.text("onFailure", string(r.OnFailure))
	fields.text("onMissingIdentity", string(r.OnMissingIdentity))
	if len(r.Attributes) > 0 {
		fields.add("attributes", p.value("attributes", r.Attributes, 0))
	}
	fields.moment("createdAt", r.CreatedAt)
	fields.moment("updatedAt", r.UpdatedAt)
	return bson.D(fields)
}

func (p *projector) when(w fluxgate.When) bson.D {
	var fields fieldList
	fields.texts("hosts", w.Hosts)
	fields.texts("excludePaths", w.ExcludePaths)
	fields.values("headers", w.Headers)
	fields.values("attributes", w.Attributes)
	if len(w.IPs) > 0 {
		ips := make([]string, len(w.IPs))
		for i, prefix := range w.IPs {
			ips[i] = prefix.String()
		}
		fields.texts("ips", ips)
	}
	fields.texts("users", w.Users)
	fields.texts("apiKeys", w.APIKeys)
	return bson.D(fields)
}

func projectBand(b fluxgate.Band) bson.D {
	var fields fieldList
	fields.text("label", b.Label)
	fields.add("capacity", b.Capacity)
	fields.add("refillTokens", b.Tokens())
	if b.Refill%time.Second == 0 {
		fields.add("refillSeconds", int64(b.Refill/time.Second))
	} else {
		fields.add("refill", b.Refill.String())
	}
	fields.text("kind", string(b.Kind))
	return bson.D(fields)
}

// fieldList is a document in the making.
type fieldList bson.D

func (l *fieldList) add(name string, value any) { *l = append(*l, bson.E{Key: name, Value: value}) }

func (l *fieldList) text(name, s string) {
	if s != "" {
		l.add(name, s)
	}
}

func (l *fieldList) texts(name string, list []string) {
	if len(list) > 0 {
		l.add(name, list)
	}
}

func (l *fieldList) oneOrMany(one, many string, list []string) {
	if len(list) == 1 && list[0] != "" {
		l.add(one, list[0])
		return
	}
	l.texts(many, list)
}

func (l *fieldList) values(name string, m map[string][]string) {
	if len(m) == 0 {
		return
	}
	fields := make(bson.D, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		fields = append(fields, bson.E{Key: mongoName(key), Value: m[key]})
	}
	l.add(name, fields)
}

func (l *fieldList) moment(name string, t time.Time) {
	if !t.IsZero() {
		l.add(name, bson.NewDateTimeFromTime(t))
	}
}

// orNull is null for an empty list: the shape that others know.
func orNull(list []string) any {
	if len(list) == 0 {
		return nil
	}
	return list
}

// value turns a free value into BSON: what JSON or a document can hold.
func (p *projector) value(place string, value any, depth int) any {
	if depth > maxDepth {
		p.note(place[:min(len(place), 200)], "is nested too deeply")
		return nil
	}
	switch v := value.(type) {
	case nil, string, bool, int64, float64:
		return v
	case int32:
		return int64(v)
	case json.Number:
		return number(v.String())
	case []any:
		list := make(bson.A, len(v))
		for i, element := range v {
			list[i] = p.value(fmt.Sprintf("%s[%d]", place, i), element, depth+1)
		}
		return list
	case map[string]any:
		fields := make(bson.D, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fields = append(fields, bson.E{Key: mongoName(name), Value: p.value(place+"."+name, v[name], depth+1)})
		}
		return fields
	}
	p.note(place, "cannot be kept as a %T", value)
	return nil
}

// comparison tells in which fields two rules differ.
type comparison struct{ a, b map[string]any }

func compare(a, b fluxgate.Rule) (comparison, error) {
	x, errX := treeOf(a)
	y, errY := treeOf(b)
	return comparison{x, y}, errors.Join(errX, errY)
}

// same reports whether both say the same under these names.
func (c comparison) same(names ...string) bool {
	for _, name := range names {
		x, errX := json.Marshal(c.a[name])
		y, errY := json.Marshal(c.b[name])
		if errX != nil || errY != nil || !bytes.Equal(x, y) {
			return false
		}
	}
	return true
}
