package middleware

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// The headers, in the order in which their values are written.
const (
	limitHeader = iota
	remainingHeader
	resetHeader
	stateHeader
	policyHeader
	headerCount
)

// The names as net/http spells them, and as gRPC does.
var (
	canonicalNames = [headerCount]string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", "Ratelimit", "Ratelimit-Policy"}
	lowerNames     = [headerCount]string{"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "ratelimit", "ratelimit-policy"}
)

// Headers writes the rate limit headers of decisions.
type Headers struct {
	// X and IETF are whether these headers are written.
	X, IETF bool

	names *[headerCount]string
	rules *nameCache
}

// NewHeaders returns Headers that are all written, under canonical names as in
// net/http, or under names in lower case as in gRPC.
func NewHeaders(lower bool) Headers {
	names := &canonicalNames
	if lower {
		names = &lowerNames
	}
	return Headers{X: true, IETF: true, names: names, rules: newNameCache()}
}

const (
	// maxEntries bounds each list.
	maxEntries = 8
	// maxInteger is the largest that a structured field can have.
	maxInteger = 999_999_999_999_999
)

// Set sets the headers of a decision with a band. It runs for every request: all
// values share one string, and all lists of values one array.
//
// In a chain of limiters the X-RateLimit headers are those of the tightest, and each adds a line
// to the others.
func (w *Headers) Set(h map[string][]string, d *fluxgate.Decision) {
	if d.Band == "" || !w.X && !w.IETF {
		return
	}
	var space, more [512]byte
	text := space[:0]
	var ends [headerCount]int // of the values in the text
	if w.X && (!d.Allowed || w.tightest(h, d)) {
		text = strconv.AppendInt(text, d.Limit, 10)
		ends[limitHeader] = len(text)
		text = strconv.AppendInt(text, d.Remaining, 10)
		ends[remainingHeader] = len(text)
		if !d.Time.IsZero() {
			text = strconv.AppendInt(text, unixCeil(d.Time.Add(d.ResetAfter)), 10)
		}
		ends[resetHeader] = len(text)
	}
	if w.IETF {
		var policies []byte
		text, policies = w.appendLists(text, more[:0], d)
		ends[stateHeader] = len(text)
		text = append(text, policies...)
		ends[policyHeader] = len(text)
	}
	all, values, start := string(text), new([headerCount]string), 0
	for i, end := range ends {
		if end <= start {
			continue
		}
		values[i] = all[start:end]
		start = end
		if i >= stateHeader && len(h[w.names[i]]) > 0 {
			h[w.names[i]] = append(slices.Clip(h[w.names[i]]), values[i])
		} else {
			h[w.names[i]] = values[i : i+1 : i+1]
		}
	}
}

// appendLists appends the entries of the RateLimit and the RateLimit-Policy list. If there are
// too many bands, the last entry is the binding one.
func (w *Headers) appendLists(states, policies []byte, d *fluxgate.Decision) (_, _ []byte) {
	var last *rules.Rule
	var names *ruleNames
	entries, position, bound := 0, 0, false
	for b := range d.Bands() {
		if b.Rule != last {
			last, names, position = b.Rule, w.rules.of(b.Rule), 0
		}
		name, policy := names.names[position], names.policies[position]
		position++
		binding := b.Rule.ID == d.RuleID && isBinding(name, d)
		switch {
		case policy == "" || b.Shadow() || b.Status == store.Unavailable || b.Status == store.NotAsked:
			continue
		case entries == maxEntries-1 && !bound && !binding:
			continue
		case entries == maxEntries:
			return states, policies
		case b.Limit != b.Band.Capacity: // of the fallback
			policy = policyOf(name, b.Limit, b.Band)
		}
		if entries > 0 {
			states, policies = append(states, ", "...), append(policies, ", "...)
		}
		states = appendState(append(states, name...), &b, d)
		policies = append(policies, policy...)
		bound = bound || binding
		entries++
	}
	return states, policies
}

// isBinding reports whether a name with its quotes, of a band of the binding rule, is that of
// the binding band.
func isBinding(name string, d *fluxgate.Decision) bool {
	return len(name) == len(`"."`)+len(d.RuleID)+len(d.Band) && strings.HasSuffix(name[:len(name)-1], d.Band)
}

// appendState appends the remaining tokens of a band and the time until there are more. That
// is left out if it is unknown, if there cannot be more, and if it is after the time of
// Retry-After.
func appendState(text []byte, b *fluxgate.BandStatus, d *fluxgate.Decision) []byte {
	text = append(text, ";r="...)
	text = strconv.AppendInt(text, min(b.Remaining, maxInteger), 10)
	if b.MoreAfter == 0 || d.RetryAfter > 0 && b.MoreAfter > d.RetryAfter {
		return text
	}
	more := max(0, b.MoreAfter-d.Wait) // the request was held since
	seconds := CeilSeconds(more)
	if more < time.Second && b.Band.Kind != rules.Quota && window(b.Band) < time.Second {
		seconds = 0 // in a second the bucket would overflow
	}
	return strconv.AppendInt(append(text, ";t="...), seconds, 10)
}

// tightest reports whether a decision leaves a smaller share than the headers of
// an outer limiter.
func (w *Headers) tightest(h map[string][]string, d *fluxgate.Decision) bool {
	limit, remaining := h[w.names[limitHeader]], h[w.names[remainingHeader]]
	if len(limit) != 1 || len(remaining) != 1 {
		return true
	}
	of, err1 := strconv.ParseInt(limit[0], 10, 64)
	left, err2 := strconv.ParseInt(remaining[0], 10, 64)
	if err1 != nil || err2 != nil {
		return true
	}
	return float64(d.Remaining)*float64(of) < float64(left)*float64(d.Limit)
}

// CeilSeconds returns a time in whole seconds, rounded up.
func CeilSeconds(d time.Duration) int64 {
	return int64((d + time.Second - 1) / time.Second)
}

// unixCeil returns a time in unix seconds, rounded up.
func unixCeil(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
