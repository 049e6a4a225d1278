package mongorules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate"
)

// The fields of a document. Those of a group say one thing together.
var (
	fieldGroups = [][]string{
		{"path", "paths"}, {"ignoreCase"}, {"method", "methods"}, {"when"}, {"limitScope"}, {"compositeKeyFields"}, {"bands"},
		{"priority"}, {"group"}, {"action"}, {"enabled"}, {"onLimitExceed"}, {"mode"}, {"onFailure"}, {"onMissingIdentity"},
		{"attributes"}, {"createdAt"}, {"updatedAt"},
	}
	// knownFields are all that have a meaning. Others are kept as they are.
	knownFields = append([]string{"_id", "id", "ruleSetId", revisionField, checksumField}, slices.Concat(fieldGroups...)...)
)

const (
	// revisionField is the revision that a document was last written for.
	revisionField = "revision"
	// checksumField is the checksum of its content as it was written.
	checksumField = "checksum"
)

// document is a rule document as it was read.
type document struct {
	raw      rawDocument
	key      string // _id, empty if that is not a string
	id       string // of the rule: the field id, else _id; empty if that is not a string
	rule     fluxgate.Rule
	text     []byte // the rule as JSON, empty if it cannot be read
	sum      string // the checksum of that
	checksum string // what the document says, empty if we have not written it
	revision int64
	exposed  bool // has an API key in the clear
	problems []fluxgate.Problem
}

// readDocument reads as much of a document as can be read.
func readDocument(raw rawDocument) document {
	d := document{raw: raw, exposed: showsKey(raw)}
	d.key, _ = raw.Lookup("_id").StringValueOK()
	d.id = d.key
	if id, err := raw.LookupErr("id"); err == nil {
		d.id, _ = id.StringValueOK()
	}
	d.checksum, _ = raw.Lookup(checksumField).StringValueOK()
	d.revision, _ = raw.Lookup(revisionField).AsInt64OK()
	tree, problems := decodeDocument(raw)
	if len(problems) == 0 {
		var err error
		d.rule, err = fluxgate.DecodeRule(tree, fluxgate.IgnoreUnknown())
		if err == nil {
			d.text, err = d.rule.MarshalJSON()
		}
		problems = problemsOf(err)
	}
	if len(problems) == 0 {
		d.sum = checksum(d.text)
	}
	for _, p := range problems {
		d.problems = append(d.problems, d.inDocument(p))
	}
	return d
}

func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// untouched reports whether a document is as FluxGate has written it.
func (d *document) untouched() bool { return d.sum != "" && d.sum == d.checksum }

// name is the _id, for messages.
func (d *document) name() string {
	if d.key != "" {
		return fmt.Sprintf("%.150q", d.key)
	}
	name := d.raw.Lookup("_id").String()
	return name[:min(len(name), 150)]
}

// names are those of at most maxProblems documents.
func names(documents []document) []string {
	var all []string
	for _, d := range documents[:min(len(documents), maxProblems)] {
		all = append(all, strings.Trim(d.name(), `"`))
	}
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

func fingerprints(documents []document) []string {
	var all []string
	for _, d := range documents {
		all = append(all, d.fingerprint())
	}
	return all
}

// unchanged is a filter that finds the document while it is as it was read, so
// that a write overwrites nothing that the writer has not seen.
func (d *document) unchanged() bson.D {
	filter := bson.D{}
	for _, name := range knownFields {
		value, err := d.raw.LookupErr(name)
		if err != nil {
			filter = append(filter, bson.E{Key: name, Value: bson.D{{Key: "$exists", Value: false}}})
			continue
		}
		filter = append(filter, bson.E{Key: name, Value: bson.D{{Key: "$eq", Value: value}}})
	}
	return filter
}

// refine gives an edited rule back what a document cannot hold exactly, where
// that was not edited.
func (d *document) refine(from ruleDocument) {
	same := sameFields(d.text, from.text)
	if same("attributes") {
		d.rule.Attributes = from.from.Attributes
	}
	if same("createdAt") {
		d.rule.CreatedAt = from.from.CreatedAt
	}
	if same("updatedAt") {
		d.rule.UpdatedAt = from.from.UpdatedAt
	}
}

// sameFields tells which fields of two rules as JSON are equal. None is if one
// of them cannot be read.
func sameFields(a, b []byte) func(names ...string) bool {
	var x, y map[string]json.RawMessage
	readable := json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil
	return func(names ...string) bool {
		return readable && !slices.ContainsFunc(names, func(name string) bool { return !bytes.Equal(x[name], y[name]) })
	}
}

// showsKey reports whether a document has an API key that is not a digest. That
// is not an edit, because the digest says the same, but it must not stay.
func showsKey(raw rawDocument) bool {
	keys, _ := raw.Lookup("when", "apiKeys").ArrayOK()
	values, _ := keys.Values()
	return slices.ContainsFunc(values, func(v bson.RawValue) bool {
		key, ok := v.StringValueOK()
		return ok && !strings.HasPrefix(key, "sha256:")
	})
}

const maxProblems = 100 // that are listed of one rule set

func problemsOf(err error) []fluxgate.Problem {
	var invalid *fluxgate.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &invalid):
		return invalid.Problems
	}
	return []fluxgate.Problem{{Message: err.Error()}}
}

// inDocument adds the name of the document to the place of a problem.
func (d *document) inDocument(p fluxgate.Problem) fluxgate.Problem {
	place := "document " + d.name()
	if p.Place != "" {
		place += ": " + p.Place
	}
	return fluxgate.Problem{Place: place, Message: p.Message}
}

// inDocuments names the document of the rule that a problem of a rule set is
// about: documents have no order, so that an index says nothing.
func inDocuments(all []fluxgate.Rule, edited map[string]*document, p fluxgate.Problem) fluxgate.Problem {
	var i int
	if n, _ := fmt.Sscanf(p.Place, "rules[%d]", &i); n != 1 || i < 0 || i >= len(all) {
		return p
	}
	_, place, _ := strings.Cut(p.Place, "]")
	p.Place = strings.TrimPrefix(place, ".")
	if d := edited[all[i].ID]; d != nil {
		return d.inDocument(p)
	}
	p.Place = fmt.Sprintf("rule %q: %s", all[i].ID, p.Place)
	return p
}
