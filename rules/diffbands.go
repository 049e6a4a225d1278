package rules

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/internal/period"
)

// bands compares bands by their name in stored state: a band shown as changed
// keeps its tokens, one shown as new does not.
func (c *comparison) bands(before, after []Band) {
	if slices.Equal(before, after) {
		return
	}
	was, is := bandNames(before), bandNames(after)
	for i, name := range is {
		path := "bands[" + name + "]"
		if j := slices.Index(was, name); j >= 0 {
			c.value(path, withKind(bandFields(before[j])), withKind(bandFields(after[i])))
		} else {
			c.scalar(path, nil, raw(bandFields(after[i])))
		}
	}
	for j, name := range was {
		if !slices.Contains(is, name) {
			c.scalar("bands["+name+"]", raw(bandFields(before[j])), nil)
		}
	}
	if !slices.Equal(common(was, is), common(is, was)) {
		c.scalar("bands.order", rawList(was), rawList(is))
	}
}

// bandFields returns a band without its label and without defaults, except that a quota shows
// its time zone. Refill tokens that equal the capacity are a default: changing both shows as
// one change.
func bandFields(b Band) map[string]any {
	d := newBandDocument(b)
	d.Label, d.RefillSeconds = "", 0
	switch b.Kind {
	case Quota:
		d.Timezone = cmp.Or(d.Timezone, "UTC")
	case TokenBucket, "":
		d.Kind, d.Refill = "", period.Format(b.Refill)
		if d.RefillTokens == d.Capacity {
			d.RefillTokens = 0
		}
	}
	return treeOf(d)
}

// withKind adds the default kind.
func withKind(fields map[string]any) map[string]any {
	if fields["kind"] == nil {
		fields["kind"] = TokenBucket
	}
	return fields
}

// bandNames returns the labels of bands, or their positions. A label that looks
// like a position is quoted.
func bandNames(bands []Band) []string {
	names := make([]string, len(bands))
	for i, b := range bands {
		names[i] = b.Label
		if b.Label == "" {
			names[i] = strconv.Itoa(i)
		} else if strings.Trim(b.Label, "0123456789") == "" {
			names[i] = strconv.Quote(b.Label)
		}
	}
	return names
}

// common returns the names that are also in others.
func common(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(s string) bool { return !slices.Contains(others, s) })
}
