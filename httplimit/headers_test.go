package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// policies are the entries of the two lists of a response, checked with a
// parser of structured fields, as "name q/w r/t".
func policies(t testing.TB, h http.Header) []string {
	t.Helper()
	policy, state := list(t, h["Ratelimit-Policy"], "q", "w"), list(t, h["Ratelimit"], "r", "t")
	if len(policy) != len(state) {
		t.Fatalf("the lists differ in length: %q and %q", policy, state)
	}
	all := make([]string, len(policy))
	names := map[string]bool{}
	for i := range policy {
		name, left, _ := strings.Cut(state[i], " ")
		if !strings.HasPrefix(policy[i], name+" ") || names[name] {
			t.Errorf("entry %d: %s beside %s, or twice", i, policy[i], state[i])
		}
		names[name] = true
		all[i] = policy[i] + " " + left
	}
	return all
}

// list parses one list: strings, each with one or two parameters that are integers of at least
// 0. One that is left out is "none".
func list(t testing.TB, lines []string, first, second string) []string {
	t.Helper()
	if len(lines) == 0 {
		return nil
	}
	parsed, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		t.Fatalf("%q is no list: %v", lines, err)
	}
	var all []string
	for _, member := range parsed {
		item := member.(httpsfv.Item)
		names := item.Params.Names()
		if !slices.Equal(names, []string{first, second}) && !slices.Equal(names, []string{first}) {
			t.Errorf("%v has the parameters %v", item.Value, names)
		}
		a, _ := item.Params.Get(first)
		b, _ := item.Params.Get(second)
		if b == nil {
			b = "none"
		} else if b.(int64) < 0 || second == "w" && b.(int64) == 0 {
			t.Errorf("%v has %s=%v and %s=%v", item.Value, first, a, second, b)
		}
		if a.(int64) < 0 {
			t.Errorf("%v has %s=%v", item.Value, first, a)
		}
		all = append(all, fmt.Sprintf("%s %v/%v", item.Value.(string), a, b))
	}
	return all
}

// xHeaders are the three older ones.
func xHeaders(h http.Header) [3]string {
	return [3]string{h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset")}
}

// The IETF headers are valid structured fields.
func TestHeaders_StructuredFields(t *testing.T) {
	year := 366 * 24 * time.Hour
	for _, c := range []struct {
		name string
		rule rules.Rule
		want []string
	}{
		{"a band with a label", perHour("rule-1", 1000), []string{"rule-1.hour 1000/3600 999/4"}},
		{"bands without labels", rules.Rule{ID: "R_2.x", Bands: []rules.Band{rules.PerSecond(10), rules.PerDay(100)}},
			[]string{"R_2.x/10-per-1s 10/1 9/1", "R_2.x/100-per-1d 100/86400 99/864"}},
		{"a window is the time in which the whole quota comes back", rules.Rule{ID: "r", Bands: []rules.Band{{Label: "b", Capacity: 100, RefillTokens: 10, Refill: time.Second}}},
			[]string{"r.b 100/10 99/1"}},
		{"a window that is no whole number of seconds is rounded up", rules.Rule{ID: "r", Bands: []rules.Band{{Label: "b", Capacity: 10, RefillTokens: 3, Refill: time.Second}}},
			[]string{"r.b 10/4 9/1"}},
		{"less than a second cannot be written", rules.Rule{ID: "r", Bands: []rules.Band{{Capacity: 10, Refill: 100 * time.Millisecond}}},
			[]string{"r.10-per-100ms 10/none 9/0"}},
		{"a year", rules.Rule{ID: "r", Bands: []rules.Band{{Label: "b", Capacity: 1, Refill: year}}},
			[]string{"r.b 1/31622400 0/31622400"}},
		{"numbers that structured fields do not have", rules.Rule{ID: "r", Bands: []rules.Band{{Label: "b", Capacity: 2_000_000_000_000_000, RefillTokens: 1_000_000_000, Refill: time.Second}}},
			[]string{"r.b 999999999999999/2000000 999999999999999/1"}},
		{"the longest names", rules.Rule{ID: strings.Repeat("i", 64), Bands: []rules.Band{{Label: strings.Repeat("l", 64), Capacity: 2, Refill: time.Hour}}},
			[]string{strings.Repeat("i", 64) + "." + strings.Repeat("l", 64) + " 2/3600 1/1800"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			response := record(newLimit(t, newEngine(t, []rules.Rule{c.rule}))(hello), get("/"))
			if got := policies(t, response.Header); !slices.Equal(got, c.want) {
				t.Errorf("got\n%q\nwant\n%q", got, c.want)
			}
		})
	}
}

// The X-RateLimit headers are those of the binding band.
func TestHeaders_BindingBand(t *testing.T) {
	list := []rules.Rule{{ID: "a", Bands: []rules.Band{rules.PerMinute(10), rules.PerHour(5)}}, perHour("b", 100)}
	handler := newLimit(t, newEngine(t, list))(hello)
	// The clock is at 1,700,000,000.123457: fractions are rounded up.
	for _, want := range [][3]string{{"5", "4", "1700000721"}, {"5", "3", "1700001441"}} {
		if got := xHeaders(record(handler, get("/")).Header); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// No more than eight entries.
func TestHeaders_EightEntries(t *testing.T) {
	var list []rules.Rule
	for i := range 5 {
		list = append(list, rules.Rule{
			ID: fmt.Sprint("r", i), Priority: -i,
			Bands: []rules.Band{rules.PerSecond(1000), rules.PerMinute(1000 - int64(i))},
		})
	}
	list[4].Bands[0].Capacity = 2 // the binding one is the ninth
	handler := newLimit(t, newEngine(t, list))(hello)
	for i := range 3 {
		response := record(handler, get("/"))
		got := policies(t, response.Header)
		if len(got) != 8 || !strings.HasPrefix(got[0], "r0.") || !strings.HasPrefix(got[6], "r3.") || !strings.HasPrefix(got[7], "r4.2-per-1s") {
			t.Errorf("request %d: entries\n%q", i, got)
		}
	}
}

// A rule with the most bands has valid headers.
func TestHeaders_ManyBands(t *testing.T) {
	for _, bands := range []int{7, 8, 9, 16} {
		rule := rules.Rule{ID: "r"}
		for i := range bands {
			rule.Bands = append(rule.Bands, rules.Band{Label: fmt.Sprint("b", i), Capacity: 100, Refill: time.Hour})
		}
		got := policies(t, record(newLimit(t, newEngine(t, []rules.Rule{rule}))(hello), get("/")).Header)
		if len(got) != min(bands, 8) {
			t.Errorf("%d bands have %d entries", bands, len(got))
		}
	}
}

// chain puts a limiter for each rule set in front of a handler, the first
// outermost.
func chain(t *testing.T, sets ...[]rules.Rule) http.Handler {
	var handler http.Handler = hello
	for _, rules := range slices.Backward(sets) {
		handler = newLimit(t, newEngine(t, rules))(handler)
	}
	return handler
}

// Limiters in a chain add their entries.
func TestHeaders_Chain(t *testing.T) {
	many := func(id string, n int) []rules.Rule {
		rule := rules.Rule{ID: id}
		for i := range n {
			rule.Bands = append(rule.Bands, rules.Band{Label: fmt.Sprint("b", i), Capacity: 100, Refill: time.Hour})
		}
		return []rules.Rule{rule}
	}
	hour := func(id string, n int64) []rules.Rule { return []rules.Rule{perHour(id, n)} }
	for _, c := range []struct {
		name    string
		sets    [][]rules.Rule
		before  int
		status  int
		limit   string
		entries []string // their names
	}{
		{"the outer one is tighter", [][]rules.Rule{hour("outer", 10), hour("inner", 100)}, 0, 200, "10", []string{"outer.hour", "inner.hour"}},
		{"the inner one is tighter", [][]rules.Rule{hour("outer", 100), hour("inner", 10)}, 0, 200, "10", []string{"outer.hour", "inner.hour"}},
		{"three", [][]rules.Rule{hour("a", 100), hour("b", 10), hour("c", 50)}, 0, 200, "10", []string{"a.hour", "b.hour", "c.hour"}},
		{"the outer one rejects", [][]rules.Rule{hour("outer", 1), hour("inner", 100)}, 1, 429, "1", []string{"outer.hour"}},
		{"the inner one rejects", [][]rules.Rule{hour("outer", 3), hour("inner", 1)}, 1, 429, "1", []string{"outer.hour", "inner.hour"}},
		{"the inner one rejects where the outer one has as little", [][]rules.Rule{hour("outer", 2), hour("inner", 1)}, 1, 429, "1", []string{"outer.hour", "inner.hour"}},
		{"one has no rule", [][]rules.Rule{hour("outer", 10), {}}, 0, 200, "10", []string{"outer.hour"}},
		{"each has up to eight", [][]rules.Rule{many("outer", 9), many("inner", 2)}, 0, 200, "100", []string{"outer.b0", "outer.b1", "outer.b2", "outer.b3", "outer.b4", "outer.b5", "outer.b6", "outer.b7", "inner.b0", "inner.b1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			handler := chain(t, c.sets...)
			for range c.before {
				record(handler, get("/"))
			}
			response := record(handler, get("/"))
			var names []string
			for _, entry := range policies(t, response.Header) {
				name, _, _ := strings.Cut(entry, " ")
				names = append(names, name)
			}
			if response.StatusCode != c.status || !slices.Equal(names, c.entries) {
				t.Errorf("status %d with entries\n%q\nwant %d with\n%q", response.StatusCode, names, c.status, c.entries)
			}
			if got := xHeaders(response.Header)[0]; got != c.limit {
				t.Errorf("X-RateLimit-Limit is %s, want %s", got, c.limit)
			}
		})
	}
}

// Lists of other software stay, and its X-RateLimit headers that are no numbers are replaced.
func TestHeaders_ForeignEntries(t *testing.T) {
	limit := newLimit(t, newEngine(t, []rules.Rule{perHour("r", 10)}))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-RateLimit-Limit", "many")
		w.Header().Add("RateLimit", `"other";r=7;t=1`)
		w.Header().Add("RateLimit-Policy", `"other";q=10;w=60`)
		limit(hello).ServeHTTP(w, r)
	})
	response := record(handler, get("/"))
	if got := policies(t, response.Header); !slices.Equal(got, []string{"other 10/60 7/1", "r.hour 10/3600 9/360"}) {
		t.Errorf("entries %q", got)
	}
	if got := xHeaders(response.Header); got != [3]string{"10", "9", "1700000361"} {
		t.Errorf("got %q", got)
	}
}

// A handler that changes a header changes only its own response.
func TestHeaders_ChangedByHandler(t *testing.T) {
	handler := newLimit(t, newEngine(t, []rules.Rule{perHour("r", 10)}))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Add("X-RateLimit-Limit", "a second one")
		h.Set("X-RateLimit-Reset", "never")
		h.Del("RateLimit-Policy")
	}))
	for _, remaining := range []string{"9", "8"} {
		h := record(handler, get("/")).Header
		if got := h.Values("X-RateLimit-Limit"); !slices.Equal(got, []string{"10", "a second one"}) {
			t.Errorf("X-RateLimit-Limit is %q", got)
		}
		if h.Get("X-RateLimit-Reset") != "never" || len(h.Values("RateLimit-Policy")) > 0 || h.Get("X-RateLimit-Remaining") != remaining {
			t.Errorf("headers %v", h)
		}
	}
}

// A changed rule with the same id has new headers.
func TestHeaders_ChangedRule(t *testing.T) {
	var limiters [2]fluxgate.Limiter
	for i, n := range []int64{10, 20} {
		limiters[i] = newEngine(t, []rules.Rule{perHour("r", n)})
	}
	current := new(switching)
	handler := newLimit(t, current)(hello)
	for i, want := range []string{"r.hour 10/3600 9/360", "r.hour 20/3600 19/180", "r.hour 10/3600 8/360"} {
		current.Limiter = limiters[i%2]
		if got := policies(t, record(handler, get("/")).Header); !slices.Equal(got, []string{want}) {
			t.Errorf("told %q, want %q", got, want)
		}
	}
}

type switching struct{ fluxgate.Limiter }

// Headers are correct for more rules than the cache holds.
func TestHeaders_ManyRules(t *testing.T) {
	var list []rules.Rule
	for i := range 3_000 {
		list = append(list, with(perHour(fmt.Sprint("rule-", i), 10), func(r *rules.Rule) { r.Paths = []string{fmt.Sprint("/", i)} }))
	}
	handler := newLimit(t, newEngine(t, list))(hello)
	for range 2 {
		for i := range list {
			h := record(handler, get(fmt.Sprint("/", i))).Header
			if want := fmt.Sprintf(`"rule-%d.hour";q=10;w=3600`, i); h.Get("RateLimit-Policy") != want {
				t.Fatalf("told %s, want %s", h.Get("RateLimit-Policy"), want)
			}
		}
	}
}

// The time of a held request is counted from its answer.
func TestHeaders_HeldRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := rules.Rule{ID: "q", OnLimitExceed: rules.WaitForRefill, Bands: []rules.Band{{Label: "b", Capacity: 1, Refill: 1200 * time.Millisecond}}}
		handler := newLimit(t, newEngine(t, []rules.Rule{rule}, fluxgate.WithWaiting(time.Minute, 10)))(hello)
		record(handler, get("/"))
		start := time.Now()
		response := record(handler, get("/"))
		if got := time.Since(start); got != 1200*time.Millisecond {
			t.Errorf("held for %v, want 1.2s", got)
		}
		// The bucket was 2.4 s from full when it was booked.
		if got := policies(t, response.Header); !slices.Equal(got, []string{"q.b 1/2 0/2"}) {
			t.Errorf("told %q", got)
		}
	})
}

// Seconds in headers are rounded up.
func TestHeaders_RoundingUp(t *testing.T) {
	for _, c := range []struct {
		refill time.Duration
		want   string
	}{
		{time.Millisecond, "1"}, {time.Second, "1"}, {time.Second + time.Microsecond, "2"}, {90 * time.Second, "90"},
	} {
		handler := newLimit(t, newEngine(t, []rules.Rule{{ID: "r", Bands: []rules.Band{{Capacity: 1, Refill: c.refill}}}}))(hello)
		record(handler, get("/"))
		response := record(handler, get("/"))
		if got := response.Header.Get("Retry-After"); response.StatusCode != http.StatusTooManyRequests || got != c.want {
			t.Errorf("a wait of %v is status %d with Retry-After %q, want %q", c.refill, response.StatusCode, got, c.want)
		}
	}
}

// partly is a store that cannot decide one rule, as a cluster with a shard
// that is down.
type partly struct {
	store.Store
	away string
}

func (p partly) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if err := p.Store.Take(ctx, demands, out); err != nil {
		return err
	}
	for i := range demands {
		if demands[i].Key.Rule == p.away {
			out.Results[i].Status = store.Unavailable
		}
	}
	return nil
}

// Bands that were not decided are not shown.
func TestHeaders_UndecidedBands(t *testing.T) {
	open := with(perHour("gone", 10), func(r *rules.Rule) { r.OnFailure = rules.FailOpen })
	engine := engineOver(t, partly{newStore(t), "gone"}, []rules.Rule{open, perHour("here", 20)})
	response := record(newLimit(t, engine)(hello), get("/"))
	if got := policies(t, response.Header); !slices.Equal(got, []string{"here.hour 20/3600 19/180"}) {
		t.Errorf("told %q", got)
	}
	if got := xHeaders(response.Header)[0]; got != "20" {
		t.Errorf("X-RateLimit-Limit is %s", got)
	}
}

// A client that never uses more than r before t is as fast as the limit, and pauses no longer than it
// takes until there is more.
func TestHeaders_ObedientClient(t *testing.T) {
	for _, c := range []struct {
		band  rules.Band
		want  int // of what the limit admits in ten minutes
		pause time.Duration
	}{
		{rules.Band{Capacity: 1_000, RefillTokens: 16, Refill: time.Second}, 16 * 600, time.Second},
		{rules.Band{Capacity: 16, Refill: time.Second}, 16 * 600, time.Second},
		{rules.Band{Capacity: 1, Refill: 62_500 * time.Microsecond}, 16 * 600, time.Second},
		{rules.Band{Capacity: 100, Refill: time.Minute}, 1_000, time.Second},
		{rules.Band{Kind: rules.SlidingWindow, Capacity: 100, Refill: time.Minute}, 900, 64 * time.Second},
		{rules.Band{Kind: rules.Quota, Capacity: 30, Period: "minute"}, 270, time.Minute},
	} {
		now := time.Unix(1_700_000_000, 123_457_000)
		store := fluxgate.Must(memstore.New(memstore.Config{Clock: func() time.Time { return now }}))
		set := fluxgate.Must(rules.NewSet("api", rules.Rule{ID: "r", Bands: []rules.Band{c.band}}))
		handler := newLimit(t, fluxgate.Must(fluxgate.New(store, fluxgate.Static(set), fluxgate.WithRuleSet("api"))))(hello)
		begin, admitted, rejected, pause := now, 0, 0, time.Duration(0)
		for left, until := int64(1), now; now.Sub(begin) < 10*time.Minute; now = now.Add(62_500 * time.Microsecond) {
			for range 40 { // it has much to do
				if left == 0 && now.Before(until) {
					break
				}
				response := record(handler, get("/"))
				if response.StatusCode != http.StatusOK {
					rejected++
					break
				}
				admitted++
				var after int64
				if n, err := fmt.Sscanf(list(t, response.Header["Ratelimit"], "r", "t")[0], "r."+c.band.Name()+" %d/%d", &left, &after); n != 2 {
					t.Fatal(err)
				}
				until = now.Add(time.Duration(after) * time.Second)
				if left == 0 {
					pause = max(pause, until.Sub(now))
				}
			}
		}
		if admitted < c.want || pause > c.pause {
			t.Errorf("%s: %d were admitted in ten minutes, %d rejected, with pauses of %v; want %d and %v", c.band.Name(), admitted, rejected, pause, c.want, c.pause)
		}
	}
}

// Limits of other units than the registered ones are left out: clients would take the numbers
// for requests. Concurrent requests have no time at which more is left.
func TestHeaders_Units(t *testing.T) {
	list := []rules.Rule{
		{ID: "tokens", Cost: rules.MeasureTokens, Bands: []rules.Band{
			{Label: "minute", Capacity: 1_000_000, Refill: time.Minute}, {Label: "slots", Kind: rules.Concurrency, Capacity: 3, Hold: time.Minute},
		}},
		{ID: "requests", Bands: []rules.Band{rules.PerMinute(10)}},
	}
	h := record(newLimit(t, newEngine(t, list))(hello), get("/")).Header
	for name, want := range map[string]string{
		"Ratelimit": `"requests.10-per-1m";r=9;t=6, "tokens.slots";r=2`, "Ratelimit-Policy": `"requests.10-per-1m";q=10;w=60, "tokens.slots";q=3;qu="concurrent-requests"`,
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
