package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/printable"
)

// shortList is up to how many entries a list is shown whole on both sides.
const shortList = 16

// comparison collects in what two rules differ. Where they do not it makes
// nothing: of two large rule sets most is the same.
type comparison []FieldDiff

// compare are the fields in which two rules differ, in the order of documents.
func compare(before, after *fluxgate.Rule) []FieldDiff {
	var c comparison
	c.list("paths", before.Paths, after.Paths, shortList)
	differ(&c, "ignoreCase", before.IgnoreCase, after.IgnoreCase)
	c.list("methods", methods(before), methods(after), shortList)
	c.when(&before.When, &after.When)
	text(&c, "limitScope", before.Scope, after.Scope, fluxgate.ScopeGlobal)
	if !slices.Equal(before.KeyFields, after.KeyFields) { // their order matters
		c.add("compositeKeyFields", rawList(before.KeyFields), rawList(after.KeyFields))
	}
	c.bands(before.Bands, after.Bands)
	differ(&c, "priority", before.Priority, after.Priority)
	text(&c, "group", before.Group, after.Group, "")
	text(&c, "action", before.Action, after.Action, fluxgate.ActionLimit)
	differ(&c, "enabled", !before.Disabled, !after.Disabled)
	text(&c, "onLimitExceed", before.OnLimitExceed, after.OnLimitExceed, "")
	text(&c, "mode", before.Mode, after.Mode, fluxgate.ModeEnforce)
	text(&c, "onFailure", before.OnFailure, after.OnFailure, "")
	text(&c, "onMissingIdentity", before.OnMissingIdentity, after.OnMissingIdentity, fluxgate.MissingIP)
	c.tree("attributes", before.Attributes, after.Attributes)
	return c
}

func (c *comparison) add(path string, before, after json.RawMessage) {
	*c = append(*c, FieldDiff{Path: path, Before: before, After: after})
}

// differ is a field that always has a value.
func differ[T comparable](c *comparison, path string, before, after T) {
	if before != after {
		c.add(path, raw(before), raw(after))
	}
}

// text is a field that means fallback where it is empty.
func text[T ~string](c *comparison, path string, before, after, fallback T) {
	before, after = cmp.Or(before, fallback), cmp.Or(after, fallback)
	if before != after {
		c.add(path, rawUnlessZero(before), rawUnlessZero(after))
	}
}

// methods are none for every method.
func methods(r *fluxgate.Rule) []string {
	if slices.Contains(r.Methods, "*") {
		return nil
	}
	return r.Methods
}

func (c *comparison) when(before, after *fluxgate.When) {
	c.list("when.hosts", before.Hosts, after.Hosts, shortList)
	c.list("when.excludePaths", before.ExcludePaths, after.ExcludePaths, shortList)
	c.values("when.headers", before.Headers, after.Headers)
	c.values("when.attributes", before.Attributes, after.Attributes)
	// The sets of identities may be long, and digests say nothing to people:
	// what was added and removed is all that one wants to see.
	if !slices.Equal(before.IPs, after.IPs) {
		c.list("when.ips", networks(before), networks(after), 0)
	}
	c.list("when.users", before.Users, after.Users, 0)
	c.list("when.apiKeys", before.APIKeys, after.APIKeys, 0)
}

func networks(w *fluxgate.When) []string {
	list := make([]string, len(w.IPs))
	for i, prefix := range w.IPs {
		list[i] = prefix.String()
	}
	return list
}

// list is a list whose order means nothing. It is shown whole if it has at most
// so many entries before and after, or none: none is no condition, and so more
// than the absence of what was removed.
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

// except are the entries that others do not have, each once.
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

// values are lists by name.
func (c *comparison) values(path string, before, after map[string][]string) {
	if maps.EqualFunc(before, after, slices.Equal) {
		return
	}
	for _, name := range names(before, after) {
		c.list(path+member(name), before[name], after[name], shortList)
	}
}

// tree is a map of free values.
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
			// One number has several types in Go; what counts is the document.
			if x, y := raw(old), raw(value); !bytes.Equal(x, y) {
				c.add(at, x, y)
			}
		}
	}
}

// names are the names of both maps in order.
func names[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}

// member is a name as the next part of a path.
func member(name string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	if name == "" || strings.Trim(name, plain) != "" {
		return "[" + printable.JSON(raw(name), "") + "]"
	}
	return "." + name
}

// raw is a value as JSON that people read, without escapes for HTML.
func raw(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// A rule set can hold what its JSON cannot: a json.Number that is none.
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

func rawList(list []string) json.RawMessage {
	if len(list) == 0 {
		return nil
	}
	return raw(list)
}
