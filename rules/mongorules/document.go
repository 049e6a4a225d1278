package mongorules

import (
	"crypto/sha256"
	"encoding/hex"
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
	// knownFields are all that have a meaning, ours included. Others are the
	// business of others.
	knownFields = func() []string {
		names := []string{"_id", "id", "ruleSetId", revisionField, checksumField}
		for _, group := range fieldGroups {
			names = append(names, group...)
		}
		return names
	}()
)

const (
	// revisionField is the revision that a document was last written for.
	revisionField = "revision"
	// checksumField is the checksum of its content as it was written.
	checksumField = "checksum"
)

// document is one rule as it stands in the collection.
type document struct {
	raw      bson.Raw
	id       string // empty if it is not a text
	rule     fluxgate.Rule
	sum      string // the checksum of its content, empty if it cannot be read
	checksum string // what it says, empty for one that was made by hand
	revision int64
	exposed  bool // shows an API key
	problems []fluxgate.Problem
}

// readDocument reads as much of a document as can be read.
func readDocument(raw bson.Raw) document {
	d := document{raw: raw}
	if id, ok := raw.Lookup("_id").StringValueOK(); ok {
		d.id = id
	}
	d.checksum, _ = raw.Lookup(checksumField).StringValueOK()
	d.revision, _ = raw.Lookup(revisionField).AsInt64OK()
	d.exposed = showsKey(raw)
	tree, problems := convertDocument(raw)
	if len(problems) == 0 {
		var err error
		d.rule, err = fluxgate.DecodeRule(tree, fluxgate.IgnoreUnknown())
		problems = problemsOf(err)
	}
	if len(problems) == 0 {
		var err error
		d.sum, err = checksum(d.rule)
		problems = problemsOf(err)
	}
	for _, p := range problems {
		d.problems = append(d.problems, inRule(d.name(), p))
	}
	return d
}

// untouched reports that nobody has changed what we wrote.
func (d *document) untouched() bool { return d.sum != "" && d.sum == d.checksum }

// name is what messages call it.
func (d *document) name() string {
	if d.id != "" {
		return d.id
	}
	return d.raw.Lookup("_id").String()
}

// fingerprint tells this state of the document from every other.
func (d *document) fingerprint() string {
	sum := sha256.New()
	for _, name := range knownFields {
		value := d.raw.Lookup(name)
		_, _ = fmt.Fprintf(sum, "%s %d %d\n%s", name, value.Type, len(value.Value), value.Value) // never fails
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// unchanged finds the document as long as it is as it was read. Whatever is
// written under this filter overwrites nothing that the writer has not seen.
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

// showsKey reports whether a document has an API key that is no digest. It says
// the same as its digest does, so that it is no edit; and yet it must not stay.
func showsKey(raw bson.Raw) bool {
	keys, _ := raw.Lookup("when", "apiKeys").ArrayOK()
	values, _ := keys.Values() // what is no list is no rule either
	return slices.ContainsFunc(values, func(v bson.RawValue) bool {
		key, ok := v.StringValueOK()
		return ok && !strings.HasPrefix(key, "sha256:")
	})
}

// checksum is a hash of what a rule says.
func checksum(r fluxgate.Rule) (string, error) {
	text, err := r.MarshalJSON()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

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

// inRule puts a problem into a rule that is known by its id: documents have no
// order, so that a position would tell nobody where to look.
func inRule(id string, p fluxgate.Problem) fluxgate.Problem {
	place := fmt.Sprintf("rule %.70q", id)
	if p.Place != "" {
		place += ": " + p.Place
	}
	return fluxgate.Problem{Place: place, Message: p.Message}
}
