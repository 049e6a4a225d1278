package rules

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/period"
)

// bands compares bands by what they are known by in stored state, so that one
// that is shown as changed keeps its tokens and one that is shown as new does
// not.
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
			c.add(path, nil, raw(documentOf(plain(after[i]))))
		}
	}
	for j, name := range was {
		if !slices.Contains(is, name) {
			c.add("bands["+name+"]", raw(documentOf(plain(before[j]))), nil)
		}
	}
	if !slices.Equal(common(was, is), common(is, was)) {
		c.add("bands.order", rawList(was), rawList(is))
	}
}

func (c *comparison) band(path string, before, after fluxgate.Band) {
	if before.Capacity != after.Capacity {
		c.add(path+".capacity", raw(before.Capacity), raw(after.Capacity))
	}
	if before.RefillTokens != after.RefillTokens {
		c.add(path+".refillTokens", rawTokens(before), rawTokens(after))
	}
	if before.Refill != after.Refill {
		c.add(path+".refill", raw(period.Format(before.Refill)), raw(period.Format(after.Refill)))
	}
	text(c, path+".kind", before.Kind, after.Kind, fluxgate.TokenBucket)
}

// plain is a band without what goes without saying. Refill tokens that are the
// capacity stay so when that changes: it is one change, and shown as one.
func plain(b fluxgate.Band) fluxgate.Band {
	if b.Tokens() == b.Capacity {
		b.RefillTokens = 0
	}
	if b.Kind == fluxgate.TokenBucket {
		b.Kind = ""
	}
	return b
}

// rawTokens is nothing for what goes without saying.
func rawTokens(b fluxgate.Band) json.RawMessage {
	if b.RefillTokens == 0 {
		return nil
	}
	return raw(b.RefillTokens)
}

// bandNames are the labels of bands, or their positions. A label that looks
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

// common are the names that others have too.
func common(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(s string) bool { return !slices.Contains(others, s) })
}

// bandDocument is a whole band.
type bandDocument struct {
	Capacity     int64             `json:"capacity"`
	RefillTokens int64             `json:"refillTokens,omitempty"`
	Refill       string            `json:"refill"`
	Kind         fluxgate.BandKind `json:"kind,omitempty"`
}

func documentOf(b fluxgate.Band) bandDocument {
	return bandDocument{Capacity: b.Capacity, RefillTokens: b.RefillTokens, Refill: period.Format(b.Refill), Kind: b.Kind}
}
