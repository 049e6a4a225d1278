package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/printable"
)

// shortList is the length up to which a list is shown whole on both sides.
const shortList = 16

// comparison collects the differences between two rules. Equal fields allocate
// nothing, because most of two large rule sets is the same.
type comparison []FieldDiff

// compare returns the fields in which two rules differ, in document order.
func compare(before, after *Rule) []FieldDiff {
	var c comparison
	c.list("paths", before.Paths, after.Paths, shortList)
	differ(&c, "ignoreCase", before.IgnoreCase, after.IgnoreCase)
	c.list("methods", methods(before), methods(after), shortList)
	c.when(&before.When, &after.When)
	text(&c, "limitScope", before.Scope, after.Scope, ScopeGlobal)
	if !slices.Equal(before.KeyFields, after.KeyFields) { // their order matters
		c.add("compositeKeyFields", rawList(before.KeyFields), rawList(after.KeyFields))
	}
	text(&c, "cost", before.Cost, after.Cost, MeasureRequests)
	c.bands(before.Bands, after.Bands)
	differ(&c, "priority", before.Priority, after.Priority)
	text(&c, "group", before.Group, after.Group, "")
	text(&c, "action", before.Action, after.Action, ActionLimit)
	differ(&c, "enabled", !before.Disabled, !after.Disabled)
	text(&c, "onLimitExceed", before.OnLimitExceed, after.OnLimitExceed, "")
	text(&c, "mode", before.Mode, after.Mode, ModeEnforce)
	text(&c, "onFailure", before.OnFailure, after.OnFailure, "")
	text(&c, "consistency", before.Consistency, after.Consistency, ConsistencyAuto)
	text(&c, "onMissingIdentity", before.OnMissingIdentity, after.OnMissingIdentity, MissingIP)
	differ(&c, "overdraft", before.Overdraft, after.Overdraft)
	differ(&c, "countRefused", before.CountRefused, after.CountRefused)
	c.list("replaces", before.Replaces, after.Replaces, shortList)
	c.tree("attributes", before.Attributes, after.Attributes)
	return c
}

func (c *comparison) add(path string, before, after json.RawMessage) {
	*c = append(*c, FieldDiff{Path: path, Before: before, After: after})
}

// differ compares a field that always has a value.
func differ[T comparable](c *comparison, path string, before, after T) {
	if before != after {
		c.add(path, raw(before), raw(after))
	}
}

// text compares a field for which empty means fallback.
func text[T ~string](c *comparison, path string, before, after, fallback T) {
	before, after = cmp.Or(before, fallback), cmp.Or(after, fallback)
	if before != after {
		c.add(path, rawUnlessZero(before), rawUnlessZero(after))
	}
}

// methods returns none for a rule that matches every method.
func methods(r *Rule) []string {
	if slices.Contains(r.Methods, "*") {
		return nil
	}
	return r.Methods
}

// list compares a list in any order. It is shown whole if both sides have at most
// whole entries, or if one side is empty: an empty list means no condition.
func (c *comparison) list(path string, before, after []string, whole int) {
	if slices.Equal(before, after) {
		return
	}
	added, removed := except(after, before), except(before, after)
	longest := max(len(before), len(after))
	switch {
	case len(added)+len(removed) == 0:
	case len(before) == 0 || len(after) == 0 || longest <= whole:
		c.add(path, rawList(before), rawList(after))
	default:
		if len(removed) > 0 {
			c.add(path+"[-]", rawList(removed), nil)
		}
		if len(added) > 0 {
			c.add(path+"[+]", nil, rawList(added))
		}
	}
}

// except returns the entries that are not in others, each once.
func except(list, others []string) []string {
	seen := make(map[string]bool, len(others))
	for _, s := range others {
		seen[s] = true
	}
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		known := seen[s]
		seen[s] = true
		return known
	})
}

// values compares lists by name.
func (c *comparison) values(path string, before, after map[string][]string) {
	if maps.EqualFunc(before, after, slices.Equal) {
		return
	}
	for _, name := range names(before, after) {
		c.list(path+member(name), before[name], after[name], shortList)
	}
}

// tree compares maps of free values.
func (c *comparison) tree(path string, before, after map[string]any) {
	if len(before)+len(after) == 0 || reflect.DeepEqual(before, after) {
		return
	}
	for _, name := range names(before, after) {
		old, had := before[name]
		value, has := after[name]
		oldTree, wasTree := old.(map[string]any)
		newTree, isTree := value.(map[string]any)
		at := path + member(name)
		switch {
		case wasTree && isTree:
			c.tree(at, oldTree, newTree)
		case !had:
			c.add(at, nil, raw(value))
		case !has:
			c.add(at, raw(old), nil)
		default:
			// A number can have several Go types; compare the JSON.
			if x, y := raw(old), raw(value); !bytes.Equal(x, y) {
				c.add(at, x, y)
			}
		}
	}
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

func rawUnlessZero[T comparable](v T) json.RawMessage {
	var zero T
	if v == zero {
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
