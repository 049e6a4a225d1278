package mongorules

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate"
)

const (
	// revisionField is the revision that a document was last written for.
	revisionField = "revision"
	// checksumField is the checksum of its content as it was written.
	checksumField = "checksum"
)

var (
	// ruleFields are what a rule consists of, besides its ids.
	ruleFields = []string{
		"path", "paths", "ignoreCase", "method", "methods", "when", "limitScope", "compositeKeyFields", "bands", "priority", "group",
		"action", "enabled", "onLimitExceed", "mode", "onFailure", "onMissingIdentity", "attributes", "createdAt", "updatedAt",
	}
	// knownFields are all that have a meaning. Others are kept as they are.
	knownFields = append([]string{"_id", "id", "ruleSetId", revisionField, checksumField}, ruleFields...)
)

// document is a rule document as it was read.
type document struct {
	raw      bson.Raw
	key      string // _id, empty if that is not a string
	id       string // of the rule: the field id, else _id; empty if that is not a string
	rule     fluxgate.Rule
	sum      string // the checksum of the rule, empty if it cannot be read
	checksum string // what the document says, empty if FluxGate has not written it
	revision int64
	exposed  bool // has an API key in the clear
	problems []fluxgate.Problem
}

func readDocuments(all []bson.Raw) []document {
	documents := make([]document, len(all))
	for i, raw := range all {
		documents[i] = readDocument(raw)
	}
	return documents
}

// readDocument reads as much of a document as can be read.
func readDocument(raw bson.Raw) document {
	d := document{raw: raw, exposed: showsKey(raw)}
	d.key, _ = raw.Lookup("_id").StringValueOK()
	d.id = d.key
	if id, err := raw.LookupErr("id"); err == nil {
		d.id, _ = id.StringValueOK()
	}
	d.checksum, _ = raw.Lookup(checksumField).StringValueOK()
	d.revision, _ = raw.Lookup(revisionField).AsInt64OK()
	var tree map[string]any
	if tree, d.problems = decodeDocument(raw); len(d.problems) > 0 {
		return d
	}
	rule, err := fluxgate.DecodeRule(tree)
	if err == nil {
		d.rule = rule
		d.sum, err = checksum(rule)
	}
	d.problems = problemsOf(err)
	return d
}

func checksum(r fluxgate.Rule) (string, error) {
	text, err := r.MarshalJSON()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// untouched reports whether a document is as FluxGate has written it.
func (d *document) untouched() bool { return d.sum != "" && d.sum == d.checksum }

// unfinished reports whether a document is of a rule without bands and was
// never part of a revision.
func (d *document) unfinished() bool {
	if action, ok := d.raw.Lookup("action").StringValueOK(); ok && action != string(fluxgate.ActionLimit) {
		return false // needs no bands
	}
	bands := d.raw.Lookup("bands")
	values, _ := bands.ArrayOK()
	list, err := values.Values()
	none := bands.Type == 0 || bands.Type == bson.TypeNull || bands.Type == bson.TypeArray && err == nil && len(list) == 0
	return none && d.checksum == "" && d.revision == 0
}

// name is the _id, for messages.
func (d *document) name() string {
	name := d.raw.Lookup("_id").String() // in quotes if it is a string
	return name[:min(len(name), 150)]
}

// names are those of at most maxProblems documents.
func names(documents []document) (all []string) {
	for _, d := range documents[:min(len(documents), maxProblems)] {
		all = append(all, strings.Trim(d.name(), `"`))
	}
	slices.Sort(all)
	return all
}

// fingerprint is of everything in the document that has a meaning.
func (d *document) fingerprint() string {
	sum := sha256.New()
	for _, name := range knownFields {
		value := d.raw.Lookup(name)
		_, _ = fmt.Fprintf(sum, "%s %d %d\n%s", name, value.Type, len(value.Value), value.Value) // never fails
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func fingerprints(documents []document) (all []string) {
	for _, d := range documents {
		all = append(all, d.fingerprint())
	}
	return all
}

// unchanged is a filter that finds the document while it is as it was read, so
// that a write overwrites nothing that the writer has not seen.
func (d *document) unchanged() bson.M {
	filter := bson.M{}
	for _, name := range knownFields {
		if value, err := d.raw.LookupErr(name); err == nil {
			filter[name] = bson.M{"$eq": value}
		} else {
			filter[name] = bson.M{"$exists": false}
		}
	}
	return filter
}

// refine gives an edited rule back what a document cannot hold exactly, where
// that was not edited.
func (d *document) refine(w ruleDocument) {
	if reflect.DeepEqual(d.rule.Attributes, w.read.Attributes) {
		d.rule.Attributes = w.from.Attributes
	}
	if d.rule.CreatedAt.Equal(w.read.CreatedAt) {
		d.rule.CreatedAt = w.from.CreatedAt
	}
	if d.rule.UpdatedAt.Equal(w.read.UpdatedAt) {
		d.rule.UpdatedAt = w.from.UpdatedAt
	}
}

// showsKey reports whether a document has an API key that is not a digest. That
// is not an edit, because the digest says the same, but it must not stay.
func showsKey(raw bson.Raw) bool {
	keys, _ := raw.Lookup("when", "apiKeys").ArrayOK()
	values, _ := keys.Values()
	return slices.ContainsFunc(values, func(v bson.RawValue) bool {
		key, ok := v.StringValueOK()
		return ok && !strings.HasPrefix(key, "sha256:")
	})
}

// decoder turns BSON into the tree of maps, lists and scalars that rules are
// read from, and collects what rules cannot hold.
type decoder struct{ problems []fluxgate.Problem }

// decodeDocument decodes the fields that have a meaning.
func decodeDocument(raw bson.Raw) (map[string]any, []fluxgate.Problem) {
	var fields bson.D
	if err := bson.Unmarshal(raw, &fields); err != nil {
		return nil, []fluxgate.Problem{{Code: fluxgate.CodeSyntax, Message: "cannot be read: " + err.Error()}}
	}
	_, err := raw.LookupErr("id")
	fields = slices.DeleteFunc(fields, func(e bson.E) bool {
		return e.Key == revisionField || e.Key == checksumField || e.Key == "_id" && err == nil || !slices.Contains(knownFields, e.Key)
	})
	var d decoder
	tree, _ := d.value(nil, fields).(map[string]any)
	return tree, d.problems[:min(len(d.problems), maxProblems)]
}

func (d *decoder) value(path fluxgate.Path, value any) any {
	problem := "must not be of type " + strings.TrimPrefix(fmt.Sprintf("%T", value), "bson.")
	switch v := value.(type) {
	case nil, string, bool, int32, int64:
		return v
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v
		}
		problem = fmt.Sprintf("must be a number, not %v", v)
	case bson.DateTime:
		t := v.Time().UTC()
		if len(path) == 1 && (path[0] == "createdAt" || path[0] == "updatedAt") {
			return t
		}
		return t.Format(time.RFC3339Nano) // free attributes are what JSON can hold
	case bson.D:
		tree := make(map[string]any, len(v))
		for _, e := range v {
			name := e.Key
			if len(path) > 0 {
				name = plainName(name)
			}
			tree[name] = d.value(append(slices.Clip(path), name), e.Value)
		}
		return tree
	case bson.A:
		list := []any{}
		for i, element := range v {
			list = append(list, d.value(append(slices.Clip(path), i), element))
		}
		return list
	}
	d.problems = append(d.problems, fluxgate.Problem{Code: fluxgate.CodeUnsupported, Path: path, Message: problem})
	return nil
}

const maxProblems = 100 // that are listed of one rule set

func problemsOf(err error) []fluxgate.Problem {
	var invalid *fluxgate.ValidationError
	if err == nil {
		return nil
	} else if errors.As(err, &invalid) {
		return invalid.Problems
	}
	return []fluxgate.Problem{{Code: fluxgate.CodeUnsupported, Message: err.Error()}}
}

// inDocument says which document a problem is in.
func (d *document) inDocument(p fluxgate.Problem) fluxgate.Problem {
	p.Subject = "document " + d.name()
	return p
}

// inDocuments names the document of the rule that a problem of a rule set is
// about: documents have no order, so that an index says nothing.
func inDocuments(all []fluxgate.Rule, edited map[string]*document, p fluxgate.Problem) fluxgate.Problem {
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
