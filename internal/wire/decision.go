package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Decision is the answer to a request.
type Decision struct {
	Allowed      bool            `json:"allowed" doc:"Whether the request may pass."`
	Reason       fluxgate.Reason `json:"reason" doc:"Why, such as ok, exempt, no-rule, limited, denied or store-failure."`
	Rule         string          `json:"rule,omitempty" doc:"The binding rule."`
	Band         string          `json:"band,omitempty" doc:"Its binding band."`
	Limit        int64           `json:"limit,omitempty" doc:"The capacity of that band."`
	Remaining    int64           `json:"remaining" doc:"How many whole tokens are left in it, or slots are free."`
	Owed         int64           `json:"owed,omitempty" doc:"Tokens booked beyond its capacity: debt, or reservations of waiting requests."`
	ResetAfterMs Millis          `json:"resetAfterMs,omitempty" doc:"How long until it is full."`
	RetryAfterMs Millis          `json:"retryAfterMs,omitempty" doc:"How long until a rejected request fits."`
	WaitMs       Millis          `json:"waitMs,omitempty" doc:"How long the request was held, or must be."`
	TimeMs       Millis          `json:"timeMs,omitempty" doc:"When it was decided, since 1970, by the store's clock."`
	Source       string          `json:"source,omitempty" doc:"What answered: store, lease, negative-cache or fallback, if anything."`
	Degraded     bool            `json:"degraded,omitempty" doc:"The store was unavailable for at least one rule."`
	Bands        []Band          `json:"bands,omitempty" nullable:"false" doc:"All bands that were asked."`
	Receipt      string          `json:"receipt,omitempty" doc:"The receipt for settling."`
}

// Band is the state of one band of a decision.
type Band struct {
	Rule         string `json:"rule" doc:"The rule it belongs to."`
	Label        string `json:"label,omitempty" doc:"Its label, if it has one."`
	Shadow       bool   `json:"shadow,omitempty" doc:"The rule is in shadow mode."`
	Measure      string `json:"measure,omitempty" doc:"What the rule counts. Absent for requests."`
	Cost         int64  `json:"cost,omitempty" doc:"What the request asks of it. Absent for 1, and where only the state is asked for."`
	Status       string `json:"status" doc:"The result: ok, rejected, too costly, unavailable or not asked."`
	Source       string `json:"source" doc:"Where the answer came from."`
	Limit        int64  `json:"limit" doc:"The most tokens or concurrent requests; in the fallback, its share of that."`
	Remaining    int64  `json:"remaining" doc:"How many whole tokens are left, or slots are free."`
	Owed         int64  `json:"owed,omitempty" doc:"Tokens booked beyond the limit: debt, or reservations of waiting requests."`
	WaitMs       Millis `json:"waitMs,omitempty" doc:"This band's part in the wait."`
	MoreAfterMs  Millis `json:"moreAfterMs,omitempty" doc:"How long until more is left. Absent if it is full, and for slots."`
	FullAfterMs  Millis `json:"fullAfterMs,omitempty" doc:"How long until it is full."`
	Capacity     int64  `json:"capacity" doc:"The rule's capacity."`
	RefillTokens int64  `json:"refillTokens,omitempty" doc:"Of a token bucket: how many tokens come back in each period."`
	RefillMs     Millis `json:"refillMs,omitempty" doc:"The period of a token bucket or a sliding window."`

	Kind     rules.BandKind `json:"kind,omitempty" enum:"quota,sliding-window,concurrency" doc:"How it counts. Absent for a token bucket."`
	Period   rules.Period   `json:"period,omitempty" doc:"Of a quota: the period of the calendar."`
	Timezone string         `json:"timezone,omitempty" doc:"Of a quota: the time zone of the calendar. Absent for UTC."`
	HoldMs   Millis         `json:"holdMs,omitempty" doc:"Of concurrent requests: how long a request that is not settled holds its slot."`
}

// Millis is a time in microseconds, in JSON in milliseconds.
type Millis int64

// MarshalJSON writes it with as many decimals as it needs.
func (m Millis) MarshalJSON() ([]byte, error) { return m.append(nil), nil }

func (m Millis) append(b []byte) []byte {
	b = strconv.AppendInt(b, int64(m/1_000), 10)
	rest := m % 1_000
	if rest == 0 {
		return b
	}
	b = append(b, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (m *Millis) UnmarshalJSON(text []byte) error {
	ms, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.Abs(ms) > 1<<52/1_000 {
		return fmt.Errorf("%.32q is not a time in milliseconds", text)
	}
	*m = Millis(math.Round(ms * 1_000))
	return nil
}

// millis is a time, rounded up to the microsecond.
func millis(d time.Duration) Millis {
	return Millis((d + time.Microsecond - 1) / time.Microsecond)
}

func (m Millis) duration() time.Duration { return time.Duration(m) * time.Microsecond }

// Append writes a decision as JSON. It runs for every request, and is faster than
// encoding/json.
func Append(b []byte, d *fluxgate.Decision, receipt string) []byte {
	b = append(b, `{"allowed":`...)
	b = strconv.AppendBool(b, d.Allowed)
	b = appendText(b, `,"reason":`, string(d.Reason))
	if d.RuleID != "" {
		b = appendText(b, `,"rule":`, d.RuleID)
	}
	if d.Band != "" {
		b = appendText(b, `,"band":`, d.Band)
		b = appendInt(b, `,"limit":`, d.Limit)
	}
	b = appendInt(b, `,"remaining":`, d.Remaining)
	b = appendOwed(b, d.Owed)
	b = appendMillis(b, `,"resetAfterMs":`, millis(d.ResetAfter))
	b = appendMillis(b, `,"retryAfterMs":`, millis(d.RetryAfter))
	b = appendMillis(b, `,"waitMs":`, millis(d.Wait))
	if !d.Time.IsZero() {
		b = appendMillis(b, `,"timeMs":`, Millis(d.Time.UnixMicro()))
	}
	if d.Band != "" {
		b = appendText(b, `,"source":`, d.Source.String())
	}
	if d.Degraded {
		b = append(b, `,"degraded":true`...)
	}
	first := true
	for band := range d.Bands() {
		if first {
			b = append(b, `,"bands":[`...)
		} else {
			b = append(b, ',')
		}
		first = false
		b = appendBand(b, &band)
	}
	if !first {
		b = append(b, ']')
	}
	if receipt != "" {
		b = appendText(b, `,"receipt":`, receipt)
	}
	return append(b, '}')
}

// AppendError writes the answer to a request of a batch that was not decided: the
// status and the detail that it would have got alone.
func AppendError(b []byte, status int, detail string) []byte {
	b = appendText(b, `{"error":`, detail)
	return append(appendInt(b, `,"status":`, int64(status)), '}')
}

func appendBand(b []byte, s *fluxgate.BandStatus) []byte {
	b = appendText(b, `{"rule":`, s.Rule.ID)
	if s.Band.Label != "" {
		b = appendText(b, `,"label":`, s.Band.Label)
	}
	if s.Shadow() {
		b = append(b, `,"shadow":true`...)
	}
	if measure := s.Rule.Measure(); measure != rules.MeasureRequests {
		b = appendText(b, `,"measure":`, measure)
	}
	if s.Cost > 1 {
		b = appendInt(b, `,"cost":`, s.Cost)
	}
	b = appendText(b, `,"status":`, s.Status.String())
	b = appendText(b, `,"source":`, s.Source.String())
	b = appendInt(b, `,"limit":`, s.Limit)
	b = appendInt(b, `,"remaining":`, s.Remaining)
	b = appendOwed(b, s.Owed)
	b = appendMillis(b, `,"waitMs":`, millis(s.Wait))
	b = appendMillis(b, `,"moreAfterMs":`, millis(s.MoreAfter))
	b = appendMillis(b, `,"fullAfterMs":`, millis(s.FullAfter))
	b = appendInt(b, `,"capacity":`, s.Band.Capacity)
	switch s.Band.Kind {
	case rules.Quota:
		b = appendText(b, `,"kind":"quota","period":`, string(s.Band.Period))
		if s.Band.Timezone != "" {
			b = appendText(b, `,"timezone":`, s.Band.Timezone)
		}
		return append(b, '}')
	case rules.Concurrency:
		b = append(b, `,"kind":"concurrency","holdMs":`...)
		return append(millis(s.Band.Hold).append(b), '}')
	case rules.SlidingWindow:
		b = append(b, `,"kind":"sliding-window"`...)
	default:
		b = appendInt(b, `,"refillTokens":`, s.Band.Tokens())
	}
	b = append(b, `,"refillMs":`...)
	b = millis(s.Band.Refill).append(b)
	return append(b, '}')
}

// Definition returns the band as it is in its rule.
func (b *Band) Definition() rules.Band {
	return rules.Band{
		Label: b.Label, Kind: b.Kind, Capacity: b.Capacity, RefillTokens: b.RefillTokens, Refill: b.RefillMs.duration(),
		Period: b.Period, Timezone: b.Timezone, Hold: b.HoldMs.duration(),
	}
}

// appendText writes a field with a text that mostly needs no escaping.
func appendText(b []byte, field, text string) []byte {
	b = append(b, field...)
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(text) // a string: never fails
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}

func appendInt(b []byte, field string, n int64) []byte {
	return strconv.AppendInt(append(b, field...), n, 10)
}

func appendOwed(b []byte, n int64) []byte {
	if n == 0 {
		return b
	}
	return appendInt(b, `,"owed":`, n)
}

func appendMillis(b []byte, field string, m Millis) []byte {
	if m == 0 {
		return b
	}
	return m.append(append(b, field...))
}

// From returns a decision as JSON. It is slower than Append.
func From(d *fluxgate.Decision) Decision {
	var w Decision
	_ = json.Unmarshal(Append(nil, d, ""), &w) // what Append has written
	return w
}

// FromBand returns a band as JSON.
func FromBand(s *fluxgate.BandStatus) Band {
	var w Band
	_ = json.Unmarshal(appendBand(nil, s), &w) // what appendBand has written
	return w
}

// Decision returns the decision as an engine would return it. Its receipt has the
// server's token. A decision that no engine makes is an error: users of decisions
// rely on valid rules.
func (w *Decision) Decision() (fluxgate.Decision, error) {
	if err := w.check(); err != nil {
		return fluxgate.Decision{}, err
	}
	d := fluxgate.Decision{
		Allowed: w.Allowed, Reason: w.Reason, RuleID: w.Rule, Band: w.Band, Limit: w.Limit, Remaining: w.Remaining, Owed: w.Owed,
		ResetAfter: w.ResetAfterMs.duration(), RetryAfter: w.RetryAfterMs.duration(), Wait: w.WaitMs.duration(), Degraded: w.Degraded,
	}
	if w.TimeMs != 0 {
		d.Time = time.UnixMicro(int64(w.TimeMs))
	}
	var ok bool
	if d.Source, ok = store.ParseSource(w.Source); !ok && w.Source != "" {
		return d, fmt.Errorf("unknown source %.32q", w.Source)
	}
	bands := make([]fluxgate.BandStatus, len(w.Bands))
	var rule *rules.Rule
	for i := range w.Bands {
		band := &w.Bands[i]
		if rule == nil || rule.ID != band.Rule {
			rule = &rules.Rule{ID: band.Rule, Cost: band.Measure}
			if band.Shadow {
				rule.Mode = rules.ModeShadow
			}
		}
		// The rule's list of bands is reallocated, so each entry points to a
		// band of its own.
		own := band.Definition()
		rule.Bands = append(rule.Bands, own)
		bands[i] = fluxgate.BandStatus{
			Rule: rule, Band: &own, Cost: max(1, band.Cost), Limit: band.Limit,
			BandResult: store.BandResult{
				Remaining: band.Remaining, Owed: band.Owed,
				Wait: band.WaitMs.duration(), MoreAfter: band.MoreAfterMs.duration(), FullAfter: band.FullAfterMs.duration(),
			},
		}
		if bands[i].Status, ok = store.ParseStatus(band.Status); !ok {
			return d, fmt.Errorf("unknown status %.32q", band.Status)
		}
		if bands[i].Source, ok = store.ParseSource(band.Source); !ok {
			return d, fmt.Errorf("unknown source %.32q", band.Source)
		}
	}
	var receipt *fluxgate.Receipt
	if w.Receipt != "" {
		receipt = &fluxgate.Receipt{Token: w.Receipt}
	}
	return fluxgate.NewDecision(d, bands, receipt), nil
}

// check returns why no engine makes such a decision.
func (w *Decision) check() error {
	switch {
	case w.Reason == "":
		return errors.New("a decision without a reason")
	case w.Rule != "" && !rules.ValidID(w.Rule):
		return errors.New("an invalid rule id")
	case w.ResetAfterMs < 0 || w.RetryAfterMs < 0 || w.WaitMs < 0 || w.TimeMs < 0:
		return errors.New("a negative time")
	}
	for i := range w.Bands {
		b := &w.Bands[i]
		band := b.Definition()
		if b.Measure != "" && !rules.ValidID(b.Measure) || b.Cost < 0 {
			return errors.New("a band with an invalid measure or cost")
		}
		if !rules.ValidID(b.Rule) || b.Label != "" && !rules.ValidID(b.Label) {
			return errors.New("a band with an invalid rule id or label")
		}
		switch b.Kind {
		case "", rules.TokenBucket, rules.SlidingWindow, rules.Concurrency:
		case rules.Quota:
			if b.Period.Longest() == 0 {
				return errors.New("a quota with an unknown period")
			}
		default:
			return fmt.Errorf("a band of an unknown kind %.32q", b.Kind)
		}
		if _, err := band.Exact(i); err != nil || b.Limit < 1 {
			return errors.New("a band with invalid numbers")
		}
		if b.WaitMs < 0 || b.MoreAfterMs < 0 || b.FullAfterMs < 0 {
			return errors.New("a negative time")
		}
	}
	return nil
}
