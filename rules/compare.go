package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/printable"
)

// shortList is the length up to which a list is shown whole on both sides.
const shortList = 16

// identities are lists that may be long, and digests are unreadable: only what was added
// and removed is shown.
var identities = []string{"when.ips", "when.users", "when.apiKeys"}

// defaults are the values of fields that a document leaves out.
var defaults = map[string]any{
	"ignoreCase": false, "limitScope": ScopeGlobal, "cost": MeasureRequests, "action": ActionLimit, "mode": ModeEnforce,
	"consistency": ConsistencyAuto, "onMissingIdentity": MissingIP, "overdraft": false, "countRefused": false,
}

// comparison collects the differences between two rules.
type comparison []FieldDiff

// compare returns the fields in which two rules differ, in document order.
func compare(before, after *Rule) []FieldDiff {
	// Most rules of two large rule sets are the same, but for what is not compared.
	a, b := *before, *after
	a.RuleSetID, a.CreatedAt, a.UpdatedAt = b.RuleSetID, b.CreatedAt, b.UpdatedAt
	if reflect.DeepEqual(&a, &b) {
		return nil
	}
	var c comparison
	was, is := before.tree(), after.tree()
	for _, f := range reflect.VisibleFields(reflect.TypeFor[RuleDocument]()) {
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name {
		case "bands":
			c.bands(before.Bands, after.Bands)
		case "compositeKeyFields": // their order matters
			c.scalar(name, rawList(before.KeyFields), rawList(after.KeyFields))
		default:
			c.value(name, orDefault(was, name), orDefault(is, name))
		}
	}
	return c
}

// tree returns what is compared of a rule, as in its document.
func (r *Rule) tree() map[string]any {
	d := r.document()
	d.ID, d.RuleSetID, d.CreatedAt, d.UpdatedAt = "", "", nil, nil
	d.Bands = nil
	d.Path, d.Paths, d.Method, d.Methods = "", r.Paths, "", r.Methods
	if slices.Contains(r.Methods, "*") {
		d.Methods = nil
	}
	return treeOf(d)
}

// treeOf returns what JSON has as an object.
func treeOf(v any) (tree map[string]any) {
	decoder := json.NewDecoder(bytes.NewReader(raw(v)))
	decoder.UseNumber()
	_ = decoder.Decode(&tree) // it was just written
	return tree
}

func orDefault(tree map[string]any, name string) any {
	if value, ok := tree[name]; ok {
		return value
	}
	return defaults[name]
}

// value compares what is the same in any order: objects, and lists. Nothing and an empty
// one are the same. Inside of free attributes and cost tables they are not.
func (c *comparison) value(path string, before, after any) {
	was, wasObject := before.(map[string]any)
	is, isObject := after.(map[string]any)
	wasList, _ := before.([]any)
	isList, _ := after.([]any)
	whole := strings.HasPrefix(path, "costTables") || path != "attributes" && strings.HasPrefix(path, "attributes")
	switch {
	case wasObject && isObject || !whole && (wasObject || isObject):
		for _, name := range names(was, is) {
			c.value(path+member(name), field(was, name), field(is, name))
		}
	case whole:
		c.scalar(path, rawUnlessNil(before), rawUnlessNil(after))
	case path == "when.descriptor" && len(wasList) == len(isList):
		for i := range wasList {
			c.value(fmt.Sprintf("%s[%d]", path, i), wasList[i], isList[i])
		}
	case path == "when.descriptor" || wasList == nil && isList == nil:
		c.scalar(path, rawUnlessNil(before), rawUnlessNil(after))
	case slices.Contains(identities, path):
		c.list(path, wasList, isList, 0)
	default:
		c.list(path, wasList, isList, shortList)
	}
}

// scalar compares values that are nil if there is none.
func (c *comparison) scalar(path string, before, after json.RawMessage) {
	if !bytes.Equal(before, after) {
		*c = append(*c, FieldDiff{Path: path, Before: before, After: after})
	}
}

// list compares a list in any order. It is shown whole if both sides have at most
// whole entries, or if one side is empty: an empty list means no condition.
func (c *comparison) list(path string, before, after []any, whole int) {
	added, removed := except(after, before), except(before, after)
	longest := max(len(before), len(after))
	switch {
	case len(added)+len(removed) == 0:
	case len(before) == 0 || len(after) == 0 || longest <= whole:
		c.scalar(path, rawList(before), rawList(after))
	default:
		if len(removed) > 0 {
			c.scalar(path+"[-]", rawList(removed), nil)
		}
		if len(added) > 0 {
			c.scalar(path+"[+]", nil, rawList(added))
		}
	}
}

// except returns the entries that are not in others, each once.
func except(list, others []any) []any {
	seen := make(map[any]bool, len(others))
	for _, s := range others {
		seen[s] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(s any) bool {
		known := seen[s]
		seen[s] = true
		return known
	})
}

// field returns the value of a field, nil if there is none. Null is a value.
func field(tree map[string]any, name string) any {
	value, ok := tree[name]
	if ok && value == nil {
		return json.RawMessage("null")
	}
	return value
}

// names returns the names of both maps in order.
func names[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

// member returns a name as the next part of a path.
func member(name string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	if name == "" || strings.Trim(name, plain) != "" {
		return "[" + printable.JSON(raw(name), "") + "]"
	}
	return "." + name
}

// raw returns a value as JSON without HTML escapes.
func raw(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// An invalid json.Number cannot be encoded.
		return raw(err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func rawUnlessNil(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	return raw(v)
}

func rawList[T any](list []T) json.RawMessage {
	if len(list) == 0 {
		return nil
	}
	return raw(list)
}
