package rules

import (
	"cmp"
	"encoding/json"
	"reflect"
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
			c.band(path, newBandFields(before[j]), newBandFields(after[i]))
		} else {
			c.scalar(path, nil, raw(newBandFields(after[i])))
		}
	}
	for j, name := range was {
		if !slices.Contains(is, name) {
			c.scalar("bands["+name+"]", raw(newBandFields(before[j])), nil)
		}
	}
	if !slices.Equal(common(was, is), common(is, was)) {
		c.scalar("bands.order", rawList(was), rawList(is))
	}
}

func (c *comparison) band(path string, before, after bandFields) {
	before.Kind, after.Kind = cmp.Or(before.Kind, TokenBucket), cmp.Or(after.Kind, TokenBucket)
	was, is := reflect.ValueOf(before), reflect.ValueOf(after)
	shown := func(v reflect.Value) json.RawMessage {
		if v.IsZero() {
			return nil
		}
		return raw(v.Interface())
	}
	for i, f := range reflect.VisibleFields(was.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		c.scalar(path+"."+name, shown(was.Field(i)), shown(is.Field(i)))
	}
}

// bandFields is a band without its label and without defaults, except that a
// quota shows its time zone.
type bandFields struct {
	Capacity     int64    `json:"capacity"`
	RefillTokens int64    `json:"refillTokens,omitempty"`
	Refill       string   `json:"refill,omitempty"`
	Kind         BandKind `json:"kind,omitempty"`
	Period       string   `json:"period,omitempty"`
	Timezone     string   `json:"timezone,omitempty"`
	Hold         string   `json:"hold,omitempty"`
}

// newBandFields leaves out refill tokens that equal the capacity, so that
// changing both shows as one change.
func newBandFields(b Band) bandFields {
	to := bandFields{Capacity: b.Capacity}
	switch b.Kind {
	case Quota:
		to.Kind, to.Period, to.Timezone = b.Kind, string(b.Period), cmp.Or(b.Timezone, "UTC")
	case SlidingWindow:
		to.Kind, to.Period = b.Kind, period.Format(b.Refill)
	case Concurrency:
		to.Kind, to.Hold = b.Kind, period.Format(b.Hold)
	default:
		to.Refill = period.Format(b.Refill)
		if b.Tokens() != b.Capacity {
			to.RefillTokens = b.Tokens()
		}
	}
	return to
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
