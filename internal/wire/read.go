package wire

import (
	"encoding/json"
	"strconv"
	"strings"
)

// ReadLine decodes a [Line]. It runs for every request, and is faster than
// encoding/json: it reads what [Append] writes, with the same fields in the same
// order. It leaves everything else to encoding/json, with the same result.
func ReadLine(text []byte, line *Line) error {
	*line = Line{}                  // the caller may use it again
	r := reader{rest: string(text)} // one copy: the texts of the answer share it
	r.line(line)
	if !r.failed && r.rest == "" {
		return nil
	}
	*line = Line{}
	return json.Unmarshal(text, line)
}

// reader reads JSON without spaces and escapes.
type reader struct {
	rest   string
	failed bool
}

func (r *reader) line(l *Line) {
	r.expect(`{"index":`)
	l.Index = int(r.int())
	r.expect(`,"decision":`)
	r.decision(&l.Entry.Decision)
	r.expect(`}`)
}

func (r *reader) decision(d *Decision) {
	r.expect(`{"allowed":`)
	if d.Allowed = r.has(`true`); !d.Allowed {
		r.expect(`false`)
	}
	r.expect(`,"reason":`)
	r.text((*string)(&d.Reason))
	r.optionalText(`,"rule":`, &d.Rule)
	r.optionalText(`,"band":`, &d.Band)
	r.optionalInt(`,"limit":`, &d.Limit)
	r.optionalInt(`,"remaining":`, &d.Remaining)
	r.optionalInt(`,"owed":`, &d.Owed)
	r.optionalMillis(`,"resetAfterMs":`, &d.ResetAfterMs)
	r.optionalMillis(`,"retryAfterMs":`, &d.RetryAfterMs)
	r.optionalMillis(`,"waitMs":`, &d.WaitMs)
	r.optionalMillis(`,"timeMs":`, &d.TimeMs)
	r.optionalText(`,"source":`, &d.Source)
	d.Degraded = r.has(`,"degraded":true`)
	if r.has(`,"bands":[`) {
		d.Bands = make([]Band, 0, 1)
		for more := true; more && !r.failed; more = r.has(`,`) {
			var b Band
			r.band(&b)
			d.Bands = append(d.Bands, b)
		}
		r.expect(`]`)
	}
	r.optionalText(`,"receipt":`, &d.Receipt)
	r.expect(`}`)
}

func (r *reader) band(b *Band) {
	r.expect(`{"rule":`)
	r.text(&b.Rule)
	r.optionalText(`,"label":`, &b.Label)
	b.Shadow = r.has(`,"shadow":true`)
	r.optionalText(`,"measure":`, &b.Measure)
	r.optionalInt(`,"cost":`, &b.Cost)
	r.optionalText(`,"status":`, &b.Status)
	r.optionalText(`,"source":`, &b.Source)
	r.optionalInt(`,"limit":`, &b.Limit)
	r.optionalInt(`,"remaining":`, &b.Remaining)
	r.optionalInt(`,"owed":`, &b.Owed)
	r.optionalMillis(`,"waitMs":`, &b.WaitMs)
	r.optionalMillis(`,"fullAfterMs":`, &b.FullAfterMs)
	r.optionalInt(`,"capacity":`, &b.Capacity)
	r.optionalText(`,"kind":`, (*string)(&b.Kind))
	r.optionalText(`,"period":`, (*string)(&b.Period))
	r.optionalText(`,"timezone":`, &b.Timezone)
	r.optionalMillis(`,"holdMs":`, &b.HoldMs)
	r.optionalInt(`,"refillTokens":`, &b.RefillTokens)
	r.optionalMillis(`,"refillMs":`, &b.RefillMs)
	r.expect(`}`)
}

func (r *reader) has(prefix string) (found bool) {
	r.rest, found = strings.CutPrefix(r.rest, prefix)
	return found
}

func (r *reader) expect(prefix string) {
	if !r.has(prefix) {
		r.failed = true
	}
}

func (r *reader) optionalText(field string, text *string) {
	if r.has(field) {
		r.text(text)
	}
}

func (r *reader) optionalInt(field string, n *int64) {
	if r.has(field) {
		*n = r.int()
	}
}

func (r *reader) optionalMillis(field string, m *Millis) {
	if r.has(field) && m.parse(r.number(true)) != nil {
		r.failed = true
	}
}

// text reads a text of printable ASCII.
func (r *reader) text(text *string) {
	r.expect(`"`)
	for i, c := range []byte(r.rest) {
		switch {
		case c == '"':
			*text, r.rest = r.rest[:i], r.rest[i+1:]
			return
		case c < ' ' || c > '~' || c == '\\':
			r.failed = true
			return
		}
	}
	r.failed = true
}

func (r *reader) int() int64 {
	n, err := strconv.ParseInt(r.number(false), 10, 64)
	if err != nil {
		r.failed = true
	}
	return n
}

// number reads a number without an exponent, or fails.
func (r *reader) number(decimals bool) string {
	start := r.rest
	r.has(`-`)
	if !r.has(`0`) {
		r.digits()
	}
	if decimals && r.has(`.`) {
		r.digits()
	}
	return start[:len(start)-len(r.rest)]
}

// digits reads at least one digit.
func (r *reader) digits() {
	n := 0
	for n < len(r.rest) && '0' <= r.rest[n] && r.rest[n] <= '9' {
		n++
	}
	if n == 0 {
		r.failed = true
	}
	r.rest = r.rest[n:]
}
