package rules

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/period"
)

// bands compares bands by their name in stored state: a band shown as changed
// keeps its tokens, one shown as new does not.
func (c *comparison) bands(before, after []fluxgate.Band) {
	if slices.Equal(before, after) {
		return
	}
	was, is := bandNames(before), bandNames(after)
	for i, name := range is {
		path := "bands[" + name + "]"
		if j := slices.Index(was, name); j >= 0 {
			c.band(path, plain(before[j]), plain(after[i]))
		} else {
			c.add(path, nil, rawBand(plain(after[i])))
		}
	}
	for j, name := range was {
		if !slices.Contains(is, name) {
			c.add("bands["+name+"]", rawBand(plain(before[j])), nil)
		}
	}
	if !slices.Equal(common(was, is), common(is, was)) {
		c.add("bands.order", rawList(was), rawList(is))
	}
}

func (c *comparison) band(path string, before, after fluxgate.Band) {
	differ(c, path+".capacity", before.Capacity, after.Capacity)
	if before.RefillTokens != after.RefillTokens {
		c.add(path+".refillTokens", rawUnlessZero(before.RefillTokens), rawUnlessZero(after.RefillTokens))
	}
	differ(c, path+".refill", period.Format(before.Refill), period.Format(after.Refill))
	text(c, path+".kind", before.Kind, after.Kind, fluxgate.TokenBucket)
}

// plain returns a band without defaults. Refill tokens equal to the capacity are
// a default, so that changing both shows as one change.
func plain(b fluxgate.Band) fluxgate.Band {
	if b.Tokens() == b.Capacity {
		b.RefillTokens = 0
	}
	if b.Kind == fluxgate.TokenBucket {
		b.Kind = ""
	}
	return b
}

// bandNames returns the labels of bands, or their positions. A label that looks
// like a position is quoted.
func bandNames(bands []fluxgate.Band) []string {
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

// rawBand returns a whole band as JSON.
func rawBand(b fluxgate.Band) json.RawMessage {
	return raw(struct {
		Capacity     int64             `json:"capacity"`
		RefillTokens int64             `json:"refillTokens,omitempty"`
		Refill       string            `json:"refill"`
		Kind         fluxgate.BandKind `json:"kind,omitempty"`
	}{b.Capacity, b.RefillTokens, period.Format(b.Refill), b.Kind})
}
