package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"net/textproto"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// decisions are what a real engine decides, of many kinds.
func decisions(t *testing.T) []fluxgate.Decision {
	t.Helper()
	clock := storetest.NewClock()
	store := fluxgate.Must(memstore.New(memstore.Config{Clock: clock.Now}))
	t.Cleanup(func() { _ = store.Close() })
	set := fluxgate.Must(rules.NewSet("set",
		rules.Rule{ID: "a", Bands: []rules.Band{{Label: "s", Capacity: 7, Refill: 1234567 * time.Microsecond}, {Capacity: 100, RefillTokens: 3, Refill: time.Minute}}},
		rules.Rule{ID: "b", Mode: rules.ModeShadow, Scope: rules.ScopeIP, Bands: []rules.Band{{Capacity: 2, Refill: 24 * time.Hour}}},
		rules.Rule{ID: "deny", Priority: 1, Action: rules.ActionDeny, Paths: []string{"/no"}},
		rules.Rule{ID: "free", Priority: 1, Action: rules.ActionAllow, Paths: []string{"/free"}},
	))
	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(set)))
	rng := rand.New(rand.NewPCG(1, 2))
	var all []fluxgate.Decision
	for range 500 {
		clock.Advance(time.Duration(rng.IntN(300_000)) * time.Microsecond)
		d, err := engine.Check(t.Context(), &fluxgate.Request{
			Path: []string{"/", "/no", "/free"}[rng.IntN(3)], Cost: int64(rng.IntN(9)), IP: netip.MustParseAddr("192.0.2.1"), Peek: rng.IntN(5) == 0,
		})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

// visible returns the fields of a decision that a caller sees.
func visible(d *fluxgate.Decision) string {
	text := fmt.Sprintln(d.Allowed, d.Reason, d.RuleID, d.Band, d.Limit, d.Remaining, d.ResetAfter, d.RetryAfter, d.Wait, d.Time.UnixMicro(), d.Source, d.Degraded)
	for b := range d.Bands() {
		text += fmt.Sprintln(b.Rule.ID, b.Band.Name(), b.Band.Capacity, b.Band.Tokens(), b.Band.Refill, b.Shadow(), b.Status, b.Source, b.Limit, b.BandResult)
	}
	return text
}

// A decision is the same after encoding and decoding.
func TestDecision_RoundTrip(t *testing.T) {
	kinds := map[fluxgate.Reason]int{}
	for _, d := range decisions(t) {
		kinds[d.Reason]++
		text := wire.Append(nil, &d, "token")
		var w wire.Decision
		if err := json.Unmarshal(text, &w); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		again, err := w.Decision()
		if err != nil {
			t.Fatal(err)
		}
		if visible(&d) != visible(&again) {
			t.Fatalf("sent\n%sarrived\n%s%s", visible(&d), visible(&again), text)
		}
		if r := again.Receipt(); r == nil || r.Token != "token" || !r.Spend() || r.Spend() {
			t.Errorf("receipt %+v", r)
		}
		// What is written by hand is what encoding/json would write.
		byLibrary, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if json.Unmarshal(byLibrary, &a) != nil || json.Unmarshal(text, &b) != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("by hand\n%s\nby library\n%s", text, byLibrary)
		}
	}
	if len(kinds) < 5 {
		t.Errorf("only %v were tried", kinds)
	}
}

// Bands have the fields of their kinds, and return with them.
func TestBand_Kinds(t *testing.T) {
	for want, band := range map[string]rules.Band{
		`"refillTokens":2,"refillMs":1000}`:                         {Kind: rules.TokenBucket, Capacity: 9, RefillTokens: 2, Refill: time.Second},
		`"kind":"quota","period":"day"}`:                            {Kind: rules.Quota, Capacity: 9, Period: "day"},
		`"kind":"quota","period":"year","timezone":"Asia/Kolkata"}`: {Kind: rules.Quota, Capacity: 9, Period: "year", Timezone: "Asia/Kolkata"},
		`"kind":"sliding-window","refillMs":60000}`:                 {Kind: rules.SlidingWindow, Capacity: 9, Refill: time.Minute},
		`"kind":"concurrency","holdMs":30000}`:                      {Kind: rules.Concurrency, Capacity: 9, Hold: 30 * time.Second},
	} {
		status := fluxgate.BandStatus{Rule: &rules.Rule{ID: "r"}, Band: &band, Limit: 9}
		d := fluxgate.NewDecision(fluxgate.Decision{Reason: fluxgate.ReasonOK, Allowed: true}, []fluxgate.BandStatus{status}, nil)
		text := string(wire.Append(nil, &d, ""))
		if !strings.Contains(text, `"capacity":9,`+want) {
			t.Errorf("%+v is %s", band, text)
		}
		w := wire.From(&d)
		again, err := w.Decision()
		if err != nil {
			t.Fatal(err)
		}
		if band.Kind == rules.TokenBucket {
			band.Kind = ""
		}
		for b := range again.Bands() {
			if *b.Band != band {
				t.Errorf("%+v returns as %+v", band, *b.Band)
			}
		}
		for _, change := range []func(b *wire.Band){
			func(b *wire.Band) { b.Kind = "semaphore" },
			func(b *wire.Band) { b.Kind, b.HoldMs = rules.Concurrency, 0 },
			func(b *wire.Band) { b.Kind, b.Period = rules.Quota, "fortnight" },
			func(b *wire.Band) { b.Kind, b.RefillMs = rules.SlidingWindow, 0 },
		} {
			w := wire.From(&d)
			change(&w.Bands[0])
			if _, err := w.Decision(); err == nil {
				t.Errorf("%+v is accepted", w.Bands[0])
			}
		}
	}
}

// everyField fails if a field of the request is not set that JSON has and that has one of
// the kinds, or any kind if there are none. A test that compares requests then sees it.
func everyField(t *testing.T, r *fluxgate.Request, kinds ...reflect.Kind) {
	t.Helper()
	v := reflect.ValueOf(*r)
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Name == "Limit" || f.Name == "EndUnknown" || len(kinds) > 0 && !slices.Contains(kinds, innermost(f.Type)) {
			continue // a limit comes from Envoy alone
		}
		if v.Field(i).IsZero() {
			t.Errorf("the request has no %s", f.Name)
		}
	}
}

// innermost is the kind of the values of lists and maps.
func innermost(of reflect.Type) reflect.Kind {
	switch of.Kind() {
	case reflect.Map, reflect.Slice:
		return innermost(of.Elem())
	}
	return of.Kind()
}

// A request is the same after encoding and decoding.
func TestRequest_RoundTrip(t *testing.T) {
	sent := fluxgate.Request{
		RuleSet: "set", IP: netip.MustParseAddr("2001:db8::1"), UserID: "u", APIKey: "k", Method: "GET", Path: "/a%2Fb", Host: "h",
		Headers: map[string][]string{"X": {"1", "2"}}, Attributes: map[string]string{"a": "b"}, Cost: 5, Peek: true,
		Descriptor: []fluxgate.DescriptorEntry{{Key: "b", Value: "1"}, {Key: "a"}, {Key: "b", Value: "1"}},
		Costs:      map[string]int64{"images": 2, "usd": store.MaxCost}, Estimate: &fluxgate.Estimate{Model: "small", InputTokens: 7, MaxOutputTokens: math.MaxInt64},
	}
	everyField(t, &sent)
	text, err := json.Marshal(wire.FromRequest(&sent))
	if err != nil {
		t.Fatal(err)
	}
	var w wire.Request
	var arrived fluxgate.Request
	if err := json.Unmarshal(text, &w); err != nil {
		t.Fatal(err)
	}
	if err := w.To(&arrived); err != nil || !reflect.DeepEqual(sent, arrived) {
		t.Errorf("%v\n%+v\n%+v", err, sent, arrived)
	}
	for _, bad := range []wire.Request{
		{RuleSet: "a b"}, {IP: "nowhere"}, {IP: "1.2.3.4:80"}, {Cost: -1}, {TimeoutMs: -1}, {Bytes: true, UserID: "Ā"},
		{Descriptor: make([]fluxgate.DescriptorEntry, 1)}, {Descriptor: slices.Repeat([]fluxgate.DescriptorEntry{{Key: "k"}}, 17)},
		{Costs: map[string]int64{"usd": -1}}, {Estimate: &wire.Estimate{InputTokens: -1}}, {Estimate: &wire.Estimate{MaxOutputTokens: -1}},
	} {
		if err := bad.To(&arrived); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	longest := wire.Request{Descriptor: slices.Repeat([]fluxgate.DescriptorEntry{{Key: "k"}}, 16)}
	if err := longest.To(&arrived); err != nil {
		t.Error(err)
	}
	mapped := wire.Request{IP: "::ffff:192.0.2.1"}
	if err := mapped.To(&arrived); err != nil || arrived.IP != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("%v, %v", arrived.IP, err)
	}
}

// Of several maxima the largest counts, also where the field is there twice.
func TestMaxima_Largest(t *testing.T) {
	for fields, want := range map[string]int64{
		`"maxOutputTokens":4096`: 4096, `"maxOutputTokens":[16,4096]`: 4096, `"maxOutputTokens":[4096,16]`: 4096, `"maxOutputTokens":[ 1 , 4096 , 2 ]`: 4096,
		`"maxOutputTokens":16,"maxOutputTokens":4096`: 4096, `"maxOutputTokens":4096,"maxOutputTokens":[16]`: 4096,
		`"maxOutputTokens":[]`: 0, `"maxOutputTokens":0`: 0, `"maxOutputTokens":null`: 0, `"maxOutputTokens":[null,3]`: 3, `"model":"small"`: 0,
		`"maxOutputTokens":[1,9223372036854775807]`: math.MaxInt64,
	} {
		var w wire.Request
		var r fluxgate.Request
		if err := json.Unmarshal([]byte(`{"estimate":{`+fields+`}}`), &w); err != nil {
			t.Errorf("%s: %v", fields, err)
			continue
		}
		if err := w.To(&r); err != nil || r.Estimate.MaxOutputTokens != want {
			t.Errorf("%s: %+v, want %d, %v", fields, r.Estimate, want, err)
		}
	}
}

// Maxima that are no numbers or negative are refused, and the error names the field.
func TestMaxima_Invalid(t *testing.T) {
	for _, value := range []string{`"16"`, `1.5`, `true`, `{}`, `9223372036854775808`, `[1,9223372036854775808]`, `[1.5,2]`, `["16"]`, `[[16]]`} {
		var w wire.Request
		err := json.Unmarshal([]byte(`{"estimate":{"maxOutputTokens":`+value+`}}`), &w)
		var kind *json.UnmarshalTypeError
		if !errors.As(err, &kind) || kind.Field != "estimate.maxOutputTokens" {
			t.Errorf("%s: %v", value, err)
		}
	}
	for _, fields := range []string{`-1`, `[-1]`, `[-1,16]`, `[16,-1]`, `16,"maxOutputTokens":-1`} {
		var w wire.Request
		if err := json.Unmarshal([]byte(`{"estimate":{"maxOutputTokens":`+fields+`}}`), &w); err != nil {
			t.Errorf("%s: %v", fields, err)
		}
		if err := w.To(new(fluxgate.Request)); !errors.Is(err, fluxgate.ErrCost) {
			t.Errorf("%s: %v", fields, err)
		}
	}
}

// Callers with different invalid UTF-8 stay different.
func TestRequest_InvalidUTF8(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	text := func() string {
		b := make([]byte, 1+rng.IntN(6))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return string(b)
	}
	for range 1_000 {
		sent := fluxgate.Request{
			RuleSet: "set", IP: netip.MustParseAddr("192.0.2.1"), UserID: text(), APIKey: text(), Method: text(), Path: text(), Host: text(),
			Headers: map[string][]string{textproto.CanonicalMIMEHeaderKey(text()): {text(), text()}}, Attributes: map[string]string{text(): text()},
			Descriptor: []fluxgate.DescriptorEntry{{Key: text(), Value: text()}},
		}
		everyField(t, &sent, reflect.String, reflect.Struct) // an entry of a descriptor has texts
		before := fmt.Sprintf("%+v", sent)
		w := wire.FromRequest(&sent)
		w.SetTimeout(1500 * time.Microsecond)
		body, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		var again wire.Request
		var arrived fluxgate.Request
		if err := json.Unmarshal(body, &again); err != nil {
			t.Fatal(err)
		}
		if err := again.To(&arrived); err != nil || !reflect.DeepEqual(sent, arrived) || again.Timeout() != 1500*time.Microsecond {
			t.Fatalf("%v\n%+v\n%+v\n%s", err, sent, arrived, body)
		}
		if after := fmt.Sprintf("%+v", sent); after != before {
			t.Fatalf("the caller's request was changed to %s", after)
		}
	}
}

// Milliseconds keep microseconds exactly.
func TestMillis_Exact(t *testing.T) {
	for _, us := range []int64{0, 1, 10, 999, 1_000, 1_001, 1_500, 123_456_789, time.Now().UnixMicro()} {
		text, err := json.Marshal(wire.Millis(us))
		if err != nil {
			t.Fatal(err)
		}
		var again wire.Millis
		if err := json.Unmarshal(text, &again); err != nil || int64(again) != us {
			t.Errorf("%d became %s and %d: %v", us, text, again, err)
		}
	}
	var m wire.Millis
	for _, bad := range []string{`"1"`, `1e300`, `true`, `[]`} {
		if err := json.Unmarshal([]byte(bad), &m); err == nil {
			t.Errorf("%s was read as %d", bad, m)
		}
	}
}

func FuzzDecision(f *testing.F) {
	f.Add(`{"allowed":true,"reason":"ok","remaining":1,"source":"store","bands":[{"rule":"r","status":"ok","source":"store","limit":1,"remaining":1,"capacity":1,"refillTokens":1,"refillMs":0.5}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var w wire.Decision
		if json.Unmarshal([]byte(text), &w) != nil {
			return
		}
		d, err := w.Decision()
		if err != nil {
			return
		}
		var again wire.Decision
		if err := json.Unmarshal(wire.Append(nil, &d, ""), &again); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(again.Bands, w.Bands) && len(w.Bands) > 0 && again.Bands[0].Rule != w.Bands[0].Rule {
			t.Fatalf("%+v became %+v", w.Bands, again.Bands)
		}
	})
}
