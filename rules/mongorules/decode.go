package mongorules

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate"
)

// maxDepth is how deep values are nested; MongoDB's bound is 100.
const maxDepth = 90

// decoder turns BSON into the tree of maps, lists and scalars that rules are
// read from, and collects what rules cannot hold.
type decoder struct{ problems []fluxgate.Problem }

// decodeDocument decodes the fields that have a meaning.
func decodeDocument(raw bson.Raw) (map[string]any, []fluxgate.Problem) {
	var fields bson.D
	if err := bson.Unmarshal(raw, &fields); err != nil {
		return nil, []fluxgate.Problem{{Message: "cannot be read: " + err.Error()}}
	}
	named := slices.ContainsFunc(fields, func(e bson.E) bool { return e.Key == "id" })
	fields = slices.DeleteFunc(fields, func(e bson.E) bool {
		return e.Key == revisionField || e.Key == checksumField || e.Key == "_id" && named || !slices.Contains(knownFields, e.Key)
	})
	var d decoder
	tree := d.object("", fields)
	return tree, d.problems
}

func (d *decoder) add(place, format string, args ...any) {
	if len(d.problems) < maxProblems {
		d.problems = append(d.problems, fluxgate.Problem{Place: place, Message: fmt.Sprintf(format, args...)})
	}
}

func (d *decoder) object(place string, fields bson.D) map[string]any {
	tree := make(map[string]any, len(fields))
	for _, e := range fields {
		at, name := e.Key, e.Key
		if place != "" {
			at, name = place+"."+e.Key, plainName(e.Key)
		}
		tree[name] = d.value(at, e.Value)
	}
	return tree
}

func (d *decoder) value(place string, value any) any {
	switch v := value.(type) {
	case nil, string, bool, int32, int64:
		return v
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			d.add(place, "must be a number, not %v", v)
			return nil
		}
		return v
	case bson.DateTime:
		t := v.Time().UTC()
		if t.Year() < 1 || t.Year() > 9999 {
			d.add(place, "must be a time in the years 1 to 9999")
			return nil
		}
		if place == "createdAt" || place == "updatedAt" {
			return t
		}
		return t.Format(time.RFC3339Nano) // free attributes are what JSON can hold
	case bson.D, bson.A:
		if strings.Count(place, ".")+strings.Count(place, "[") > maxDepth {
			d.add(place[:min(len(place), 200)], "is nested too deeply")
			return nil
		}
		if fields, ok := v.(bson.D); ok {
			return d.object(place, fields)
		}
		list := []any{}
		for i, element := range value.(bson.A) {
			list = append(list, d.value(fmt.Sprintf("%s[%d]", place, i), element))
		}
		return list
	}
	kind, _, err := bson.MarshalValue(value)
	if err != nil {
		d.add(place, "must not be a %T", value)
		return nil
	}
	d.add(place, "must not be of the BSON type %s", kind)
	return nil
}
