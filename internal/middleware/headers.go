package middleware

import (
	"strconv"
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
	// maxEntries bounds the lists of all limiters of a chain together.
	maxEntries = 8
	// maxInteger is the largest that a structured field can have.
	maxInteger = 999_999_999_999_999
)

// Set sets the headers of a decision with a band. It runs for every request: all
// values share one string, and all lists of values one array.
func (w *Headers) Set(h map[string][]string, d *fluxgate.Decision) {
	if d.Band == "" || !w.X && !w.IETF {
		return
	}
	var space [512]byte
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
	var policy string
	merge := false
	if w.IETF {
		var rules [maxEntries]*ruleNames
		states, count, fits := w.appendStates(text, &rules, d)
		switch {
		case !fits || len(h[w.names[stateHeader]]) > 0:
			merge = true
		case count == 1:
			text, policy = states, rules[0].policies
			ends[stateHeader] = len(text)
		default:
			ends[stateHeader] = len(states)
			text = appendPolicies(states, rules[:count])
			ends[policyHeader] = len(text)
		}
	}

	all, values, start := string(text), headerValues{w.names, new([headerCount]string)}, 0
	for i, end := range ends {
		if end > start {
			values.set(h, i, all[start:end])
			start = end
		}
	}
	if policy != "" {
		values.set(h, policyHeader, policy)
	}
	if merge {
		values.merge(h, d)
	}
}

// headerValues are the headers of one decision. All lists of values share an array.
type headerValues struct{ names, values *[headerCount]string }

func (v headerValues) set(h map[string][]string, i int, value string) {
	v.values[i] = value
	h[v.names[i]] = v.values[i : i+1 : i+1]
}

// appendStates appends the RateLimit list and finds the rules of the
// RateLimit-Policy list. It reports failure if there are too many entries, or if
// the bands are not those of the rules because the fallback decided.
func (w *Headers) appendStates(text []byte, names *[maxEntries]*ruleNames, d *fluxgate.Decision) (_ []byte, count int, ok bool) {
	if d.Degraded {
		return text, 0, false
	}
	var last *rules.Rule
	entries, position := 0, 0
	for b := range d.Bands() {
		if b.Shadow() {
			continue
		}
		if b.Status == store.NotAsked {
			return text, 0, false
		}
		if entries == maxEntries {
			return text, 0, false
		}
		if b.Rule != last {
			last, position = b.Rule, 0
			names[count] = w.rules.of(b.Rule)
			count++
		}
		if entries > 0 {
			text = append(text, ", "...)
		}
		text = append(text, names[count-1].names[position]...)
		text = appendState(text, &b, d)
		entries++
		position++
	}
	return text, count, true
}

// appendState appends the remaining tokens of a band and the time until it is
// full, or until a rejected request can be sent again if that is sooner.
func appendState(text []byte, b *fluxgate.BandStatus, d *fluxgate.Decision) []byte {
	text = append(text, ";r="...)
	text = strconv.AppendInt(text, min(b.Remaining, maxInteger), 10)
	text = append(text, ";t="...)
	window := max(0, b.FullAfter-d.Wait) // the request was held since
	if d.RetryAfter > 0 {
		window = min(window, d.RetryAfter)
	}
	return strconv.AppendInt(text, CeilSeconds(window), 10)
}

func appendPolicies(text []byte, rules []*ruleNames) []byte {
	for i, r := range rules {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = append(text, r.policies...)
	}
	return text
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
