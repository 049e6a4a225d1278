package fluxgate

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf8"
)

// cloneAttributes copies what a document can hold: scalars, lists and maps.
func cloneAttributes(m map[string]any) map[string]any {
	m = maps.Clone(m)
	for name, value := range m {
		m[name] = cloneAttribute(value)
	}
	return m
}

func cloneAttribute(value any) any {
	switch v := value.(type) {
	case map[string]any:
		return cloneAttributes(v)
	case []string: // as a document would have it
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i]
		}
		return list
	case map[string]string:
		m := make(map[string]any, len(v))
		for name := range v {
			m[name] = v[name]
		}
		return m
	case []any:
		v = slices.Clone(v)
		for i := range v {
			v[i] = cloneAttribute(v[i])
		}
		return v
	}
	return value
}

// maxNesting bounds how deep free attributes go.
const maxNesting = 32

// validateAttribute lets pass what a document can hold, so that a rule is the
// same after it was written and read.
func validateAttribute(value any, place string, depth int, found *problems) {
	switch v := value.(type) {
	case nil, bool, json.Number, int, int32, int64, uint64:
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			found.add(place, "must be a number that JSON has")
		}
	case string:
		if !utf8.ValidString(v) {
			found.add(place, "must be UTF-8")
		}
	case []any:
		for i := range v {
			if depth < maxNesting {
				validateAttribute(v[i], fmt.Sprintf("%s[%d]", place, i), depth+1, found)
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !utf8.ValidString(name) {
				found.add(place, "must have names in UTF-8")
			}
			if depth < maxNesting {
				validateAttribute(v[name], place+"."+name, depth+1, found)
			}
		}
	default:
		found.add(place, "must be a text, a number, true or false, a list or an object, not a %T", value)
	}
	if depth == maxNesting {
		found.add(place, "must not be nested deeper than %d", maxNesting)
	}
}
