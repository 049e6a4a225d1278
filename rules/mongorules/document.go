package mongorules

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate/rules"
)

const (
	// revisionField is the revision that a document was last written for.
	revisionField = "revision"
	// checksumField is the checksum of its content when it was written.
	checksumField = "checksum"
)

var (
	// ruleFields are the fields of a rule besides its ids, which are the first two.
	ruleFields = fieldsOf[rules.RuleDocument]()[2:]
	// knownFields are all known fields. Others are kept.
	knownFields = append([]string{"_id", "id", "ruleSetId", revisionField, checksumField}, ruleFields...)
)

// fieldsOf returns the names that the fields of a struct have in documents.
func fieldsOf[T any]() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// document is a rule document as read.
type document struct {
	raw      bson.Raw
	key      string // _id, empty if that is not a string
	idField  string // id, or without one _id
	id       string // of the rule, empty if that is not a string
	rule     rules.Rule
	sum      string // the checksum of the rule, empty if it cannot be read
	checksum string // in the document, empty if FluxGate has not written it
	revision int64
	problems []rules.Problem
	want     *ruleDocument // what it should be, nil if unknown
}

// identify reads the ids, revision and checksum of a document.
func identify(raw bson.Raw) document {
	d := document{raw: raw, idField: "id"}
	if _, err := raw.LookupErr(d.idField); err != nil {
		d.idField = "_id"
	}
	d.key, _ = raw.Lookup("_id").StringValueOK()
	d.id, _ = raw.Lookup(d.idField).StringValueOK()
	d.checksum, _ = raw.Lookup(checksumField).StringValueOK()
	d.revision, _ = raw.Lookup(revisionField).AsInt64OK()
	return d
}

// readDocument reads as much of a document as possible.
func readDocument(raw bson.Raw) document {
	d := identify(raw)
	var fields bson.D
	if err := bson.Unmarshal(raw, &fields); err != nil {
		d.problems = problemsOf(fmt.Errorf("cannot be read: %w", err))
	}
	tree := make(map[string]any, len(fields))
	for _, e := range fields {
		if e.Key == d.idField || e.Key == "ruleSetId" || slices.Contains(ruleFields, e.Key) {
			tree[e.Key] = d.decode(rules.Path{e.Key}, e.Value)
		}
	}
	if len(d.problems) > 0 {
		d.problems = d.problems[:min(len(d.problems), maxProblems)]
		return d
	}
	var err error
	if d.rule, err = rules.DecodeRule(tree); err == nil {
		d.sum, err = checksum(d.rule)
	}
	d.problems = problemsOf(err)
	return d
}

// decode converts a BSON value to the maps, lists and scalars that rules are parsed
// from. Values that a rule cannot have are problems.
func (d *document) decode(path rules.Path, value any) any {
	var problem string
	switch v := value.(type) {
	case nil, string, bool, int32, int64:
		return v
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v
		}
		problem = fmt.Sprintf("must be a number, not %v", v)
	case bson.DateTime:
		return v.Time().UTC().Format(time.RFC3339Nano)
	case bson.D:
		tree := make(map[string]any, len(v))
		for _, e := range v {
			name := plainName(e.Key)
			tree[name] = d.decode(append(slices.Clip(path), name), e.Value)
		}
		value = tree
	case bson.A:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = d.decode(append(slices.Clip(path), i), element)
		}
		value = list
	default:
		problem = "must not be of type " + strings.TrimPrefix(fmt.Sprintf("%T", v), "bson.")
	}
	if len(path) == maxDepth {
		problem = "is nested too deeply"
	}
	if problem != "" {
		d.problems = append(d.problems, rules.Problem{Code: rules.CodeUnsupported, Path: path, Message: problem})
	}
	return value
}

func checksum(r rules.Rule) (string, error) {
	text, err := r.MarshalJSON()
	return hexSum(text), err
}

func hexSum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// untouched reports whether a document has not changed since FluxGate wrote it.
func (d *document) untouched() bool { return d.sum != "" && d.sum == d.checksum }

// unfinished reports whether a document is of a rule without bands and was never
// part of a revision.
func (d *document) unfinished() bool {
	bands := d.raw.Lookup("bands")
	// An empty array has 5 bytes. A rule that allows or denies needs no bands.
	none := bands.Type == 0 || bands.Type == bson.TypeNull || bands.Type == bson.TypeArray && len(bands.Value) <= 5
	action, _ := d.raw.Lookup("action").StringValueOK()
	return none && d.checksum == "" && d.revision == 0 && (action == "" || action == string(rules.ActionLimit))
}

// name returns the _id, for messages.
func (d *document) name() string {
	name := d.raw.Lookup("_id").String() // in quotes if it is a string
	return name[:min(len(name), 150)]
}

// names returns those of at most maxProblems documents.
func names(documents []document) (all []string) {
	for _, d := range documents[:min(len(documents), maxProblems)] {
		all = append(all, strings.Trim(d.name(), `"`))
	}
	slices.Sort(all)
	return all
}

// unchanged returns a filter that matches the document only if it has not changed
// since it was read.
func (d *document) unchanged() (filter bson.D) {
	for _, name := range knownFields {
		condition := bson.E{Key: "$exists", Value: false}
		if value, err := d.raw.LookupErr(name); err == nil {
			condition = bson.E{Key: "$eq", Value: value}
		}
		filter = append(filter, bson.E{Key: name, Value: bson.D{condition}})
	}
	return filter
}

// fingerprint returns a hash of all known fields.
func (d *document) fingerprint() string {
	content, _ := bson.Marshal(d.unchanged()) // values that were read can be written
	return hexSum(content)
}

// refined returns an edited rule with the exact values of fields that a document
// cannot represent and that were not edited.
func (d *document) refined() rules.Rule {
	if d.want == nil {
		return d.rule
	}
	r := d.rule
	edited, written, exact := reflect.ValueOf(&r).Elem(), reflect.ValueOf(d.want.rule), reflect.ValueOf(d.want.from)
	for i := range edited.NumField() {
		if reflect.DeepEqual(edited.Field(i).Interface(), written.Field(i).Interface()) {
			edited.Field(i).Set(exact.Field(i))
		}
	}
	return r
}

// showsKey reports whether a document has an API key in plain text. It has the same
// meaning as the digest, so it is not an edit, but it must be replaced.
func (d *document) showsKey() bool {
	keys, _ := d.raw.Lookup("when", "apiKeys").ArrayOK()
	values, _ := keys.Values()
	return slices.ContainsFunc(values, func(v bson.RawValue) bool {
		key, ok := v.StringValueOK()
		return ok && !strings.HasPrefix(key, "sha256:")
	})
}

const maxProblems = 100 // listed for one rule set

func problemsOf(err error) []rules.Problem {
	var invalid *rules.ValidationError
	if err == nil {
		return nil
	} else if errors.As(err, &invalid) {
		return invalid.Problems
	}
	return []rules.Problem{{Code: rules.CodeUnsupported, Message: err.Error()}}
}

// inDocument adds the document to a problem.
func (d *document) inDocument(p rules.Problem) rules.Problem {
	p.Subject = "document " + d.name()
	return p
}

// inDocuments adds the document to a problem of a rule set. Documents have no order,
// so an index would say nothing.
func inDocuments(all []rules.Rule, edited map[string]*document, p rules.Problem) rules.Problem {
	i, inside := p.Path.Rule()
	if i < 0 || i >= len(all) {
		return p
	}
	p.Path, p.Subject = inside, fmt.Sprintf("rule %q", all[i].ID)
	if d := edited[all[i].ID]; d != nil {
		return d.inDocument(p)
	}
	return p
}
