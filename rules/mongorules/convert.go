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

const (
	maxDepth    = 90  // MongoDB itself stops at 100
	maxProblems = 100 // that are listed of one rule set
)

// converter turns BSON into the tree of maps, lists and scalars that rules are
// read from, and notes what has no place there.
type converter struct{ problems []fluxgate.Problem }

// convertDocument converts the fields that have a meaning.
func convertDocument(raw bson.Raw) (map[string]any, []fluxgate.Problem) {
	var fields bson.D
	if err := bson.Unmarshal(raw, &fields); err != nil {
		return nil, []fluxgate.Problem{{Message: "cannot be read: " + err.Error()}}
	}
	fields = slices.DeleteFunc(fields, func(e bson.E) bool {
		return e.Key == revisionField || e.Key == checksumField || !slices.Contains(knownFields, e.Key)
	})
	var c converter
	tree := c.object("", fields)
	return tree, c.problems
}

func (c *converter) note(place, format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, fluxgate.Problem{Place: place, Message: fmt.Sprintf(format, args...)})
	}
}

func (c *converter) object(place string, fields bson.D) map[string]any {
	tree := make(map[string]any, len(fields))
	for _, e := range fields {
		at := e.Key
		if place != "" {
			at = place + "." + e.Key
		}
		name := e.Key
		if place != "" {
			name = plainName(name)
		}
		tree[name] = c.value(at, e.Value)
	}
	return tree
}

func (c *converter) value(place string, value any) any {
	switch v := value.(type) {
	case nil, string, bool, int32, int64:
		return v
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			c.note(place, "must be a number, not %v", v)
			return nil
		}
		return v
	case bson.DateTime:
		t := v.Time().UTC()
		if t.Year() < 1 || t.Year() > 9999 {
			c.note(place, "must be a time in the years 1 to 9999")
			return nil
		}
		if place == "createdAt" || place == "updatedAt" {
			return t
		}
		return t.Format(time.RFC3339Nano) // free attributes are what JSON can hold
	case bson.D, bson.A:
		if strings.Count(place, ".")+strings.Count(place, "[") > maxDepth {
			c.note(place[:min(len(place), 200)], "is nested too deeply")
			return nil
		}
		if fields, ok := v.(bson.D); ok {
			return c.object(place, fields)
		}
		var list []any
		for i, element := range value.(bson.A) {
			list = append(list, c.value(fmt.Sprintf("%s[%d]", place, i), element))
		}
		if list == nil {
			list = []any{}
		}
		return list
	}
	c.note(place, "must not be of the BSON type %s", bsonType(value))
	return nil
}

func bsonType(value any) string {
	kind, _, err := bson.MarshalValue(value)
	if err != nil {
		return fmt.Sprintf("%T", value)
	}
	return kind.String()
}
