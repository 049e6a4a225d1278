package rules

import (
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"
)

// cloneAttributes is a deep copy of scalars, lists and maps.
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
	case []string: // as in a document
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

// validateAttribute accepts what a document can hold, so that a rule is the same
// after it was written and read.
func validateAttribute(value any, depth int, in reporter) {
	if depth > maxNesting {
		return
	}
	switch v := value.(type) {
	case nil, bool, int, int32, int64, uint64:
	case json.Number, float64:
		if _, err := json.Marshal(v); err != nil {
			in.add(CodeUnsupported, "must be a number that JSON has")
		}
	case string:
		if !utf8.ValidString(v) {
			in.add(CodeUnsupported, "must be UTF-8")
		}
	case []any:
		for i := range v {
			validateAttribute(v[i], depth+1, in.at(i))
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !utf8.ValidString(name) {
				in.add(CodeInvalidName, "must have names in UTF-8")
			}
			validateAttribute(v[name], depth+1, in.at(name))
		}
	default:
		in.add(CodeUnsupported, "must be a string, a number, true or false, a list or an object, not a %T", value)
	}
	if depth == maxNesting {
		in.add(CodeOutOfRange, "must not be nested deeper than %d", maxNesting)
	}
}
