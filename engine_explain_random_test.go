package fluxgate_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Explanations of random requests equal the decisions that follow. All share
// one store, so that buckets are partly used. Time moves only between requests
// and while one is held.
func TestExplain_RandomRequests_NoRace(t *testing.T) {
	t.Parallel()
	pairs := 5_000
	if testing.Short() {
		pairs = 2_000
	}
	synctest.Test(t, func(t *testing.T) {
		r := &realRequests{t: t, store: &witness{Store: newStore(t, nil)}, seen: new(recorder), met: map[string]int{}}
		for seed := range uint64(pairs) {
			g := ruleMaker{rand.New(rand.NewPCG(seed, 7))}
			rules, req := g.rules(), g.request()
			engine := g.engine(t, r.store, r.seen, rules)
			r.try(engine, req)
			r.sameCaller(engine, req, g.IntN(len(parts)))
			if t.Failed() {
				t.Fatalf("seed %d\nrules   %+v\nrequest %+v", seed, rules, req)
			}
			time.Sleep(time.Duration(g.IntN(1_000)) * time.Millisecond)
		}
		for _, what := range []string{
			"ok", "limited", "denied", "exempt", "no-rule", "missing-identity", "cost-too-high", "held", "one of several rules", "shadow",
			"used in part", "counted by address", "another caller", "the same caller", "disabled", "path", "excluded-path", "method", "host", "header", "attribute",
			"ip", "user", "api-key", "group", "by measure", "ended", "reading", "no rule in one of several readings",
		} {
			if r.met[what] < pairs/200 {
				t.Errorf("%q was met %d times in %d, so little was compared", what, r.met[what], pairs)
			}
		}
	})
}

// witness is a store that records the demands of its takes.
type witness struct {
	store.Store
	taken []taken
}

type taken struct {
	key  store.Key
	cost int64
}

func (w *witness) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	for i := range demands {
		w.taken = append(w.taken, taken{demands[i].Key, demands[i].Cost})
	}
	return w.Store.Take(ctx, demands, out)
}

// realRequests compares explanations with decisions.
type realRequests struct {
	t     *testing.T
	store *witness
	seen  *recorder
	met   map[string]int // how often each case was compared
}

func (r *realRequests) try(engine *fluxgate.Engine, req fluxgate.Request) {
	t := r.t
	r.store.taken, r.seen.events = nil, nil
	before := explain(t, engine, req)
	if len(r.store.taken) > 0 || len(r.seen.events) > 0 {
		t.Errorf("to explain, %d were taken and %q told", len(r.store.taken), r.seen.events)
	}
	start := time.Now()
	d := check(t, engine, req)
	r.sameDecision(&before.Decision, &d)
	r.sameRules(before.Rules, len(before.Readings), &d)
	if d.Wait > 0 {
		r.met["held"]++
		if held := time.Since(start); held != d.Wait {
			t.Errorf("held for %v, explained as %v", held, d.Wait)
		}
		return // time has passed, and with it tokens have come back
	}
	after := explain(t, engine, req)
	if got, want := state(&after.Decision), state(&d); !slices.Equal(got, want) {
		t.Errorf("left after the decision:\n%q, want\n%q", got, want)
	}
	r.sameBuckets(engine, req, before.Rules, &d)
}

// sameDecision compares everything but what is left.
func (r *realRequests) sameDecision(explained, decided *fluxgate.Decision) {
	said := func(d *fluxgate.Decision) string {
		return fmt.Sprintln(answerOf(d), d.Band, d.Limit, d.RetryAfter, d.Wait, d.Time.UnixMicro(), d.Source, d.Degraded)
	}
	if got, want := said(explained), said(decided); got != want {
		r.t.Errorf("explained as %s, decided as %s", got, want)
	}
	r.met[string(decided.Reason)]++
}

// sameRules compares the verdicts with the demands of the take.
func (r *realRequests) sameRules(verdicts []fluxgate.Verdict, readings int, d *fluxgate.Decision) {
	denied, exempt := "", "" // the first rule that denies, and the last that allows
	var keys []taken
	refused := "" // the rule that refuses a request without identity
	enforced := 0
	for i := range verdicts {
		v := &verdicts[i]
		r.met[string(v.Why)]++
		if !v.Applies {
			continue
		}
		shadow := v.Rule.Mode == rules.ModeShadow
		switch {
		case v.Rule.Action == rules.ActionAllow && !shadow:
			exempt = v.Rule.ID
		case v.Rule.Action == rules.ActionDeny && !shadow:
			denied = cmp.Or(denied, v.Rule.ID)
		case v.Rule.Action == rules.ActionAllow || v.Rule.Action == rules.ActionDeny:
		case v.Key != store.Key{}:
			keys = append(keys, taken{v.Key, v.Cost})
			if v.Rule.Cost != "" && v.Cost > 1 {
				r.met["by measure"]++
			}
			if shadow {
				r.met["shadow"]++
			} else {
				enforced++
			}
			if slices.Contains(v.Identity, "ip") && len(v.Missing) > 0 {
				r.met["counted by address"]++
			}
		case !shadow:
			refused = cmp.Or(refused, v.Rule.ID)
		}
	}
	switch {
	case denied != "":
		r.answers(d, answer{false, fluxgate.ReasonDenied, denied})
		keys = nil
	case d.Reason == fluxgate.ReasonNoRule && !d.Allowed && readings > 1:
		r.met["no rule in one of several readings"]++
		keys = nil
	case refused != "":
		r.answers(d, answer{false, fluxgate.ReasonMissingIdentity, refused})
		keys = nil
	case enforced == 0 && exempt != "":
		r.answers(d, answer{true, fluxgate.ReasonExempt, exempt})
	case enforced == 0:
		r.answers(d, answer{d.Allowed, fluxgate.ReasonNoRule, ""})
		if !d.Allowed {
			keys = nil // the engine refuses requests without a limiting rule before it calls the store
		}
	}
	if !slices.Equal(r.store.taken, keys) {
		r.t.Errorf("the store was asked for\n%v, explained as\n%v", r.store.taken, keys)
	}
	if len(keys) > 1 {
		r.met["one of several rules"]++
	}
}

func (r *realRequests) answers(d *fluxgate.Decision, want answer) {
	if answerOf(d) != want {
		r.t.Errorf("decided %+v, explained as %+v", answerOf(d), want)
	}
}

// sameBuckets compares the buckets of the rules that apply with the keys of
// their verdicts and with what the decision left.
func (r *realRequests) sameBuckets(engine *fluxgate.Engine, req fluxgate.Request, verdicts []fluxgate.Verdict, d *fluxgate.Decision) {
	found, err := engine.Buckets(r.t.Context(), &req)
	if err != nil {
		r.t.Error(err)
	}
	var got, want []store.Key
	var left []string
	for _, b := range found {
		got = append(got, b.Key)
		for i := range b.Bands {
			left = append(left, stateOf(&b.Bands[i]))
			if b.Bands[i].Remaining > 0 && b.Bands[i].Remaining < b.Bands[i].Limit {
				r.met["used in part"]++
			}
		}
	}
	for i := range verdicts {
		if v := &verdicts[i]; v.Applies && v.Key != (store.Key{}) {
			want = append(want, v.Key)
		}
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("buckets\n%v, explained as\n%v", got, want)
	}
	if asked := state(d); len(asked) > 0 && !slices.Equal(left, asked) {
		r.t.Errorf("left in the buckets:\n%q, want\n%q", left, asked)
	}
}

// sameCaller changes one part of a request: its keys change under the rules
// whose verdicts name it, and under no others.
func (r *realRequests) sameCaller(engine *fluxgate.Engine, req fluxgate.Request, part int) {
	_, before, err := engine.Effective(r.t.Context(), &req)
	if err != nil {
		r.t.Fatal(err)
	}
	name := parts[part].name
	if !parts[part].change(&req) {
		return // the request does not have this part
	}
	_, after, err := engine.Effective(r.t.Context(), &req)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range before {
		v := &before[i]
		if v.Key == (store.Key{}) {
			continue
		}
		another := v.Key != after[i].Key
		if another != slices.Contains(v.Identity, name) {
			r.t.Errorf("rule %s counts by %q, and with another %s it is another caller: %t", v.Rule.ID, v.Identity, name, another)
		}
		r.met[map[bool]string{true: "another caller", false: "the same caller"}[another]]++
	}
}

// parts are the parts of keys: each is changed if the request has it.
var parts = []struct {
	name   string
	change func(*fluxgate.Request) bool
}{
	{"ip", func(r *fluxgate.Request) bool {
		had := r.IP.IsValid()
		r.IP = netip.MustParseAddr("198.51.100.7")
		return had
	}},
	{"userId", func(r *fluxgate.Request) bool { return replace(&r.UserID, "eve") }},
	{"apiKey", func(r *fluxgate.Request) bool { return replace(&r.APIKey, "key-9") }},
	{"method", func(r *fluxgate.Request) bool { return replace(&r.Method, "DELETE") }},
	{"path", func(r *fluxgate.Request) bool { return replace(&r.Path, "/changed") }},
	{"header:X-Plan", func(r *fluxgate.Request) bool {
		for name, lines := range r.Headers {
			r.Headers = map[string][]string{name: {"changed"}}
			return lines[0] != ""
		}
		return false
	}},
	{"attr:tenant", func(r *fluxgate.Request) bool {
		had := r.Attributes["tenant"] != ""
		r.Attributes = map[string]string{"tenant": "changed"}
		return had
	}},
	{"descriptor", func(r *fluxgate.Request) bool {
		had := len(r.Descriptor) > 0
		r.Descriptor = append(slices.Clip(r.Descriptor), fluxgate.DescriptorEntry{Key: "added"})
		return had
	}},
}

func replace(value *string, with string) (had bool) {
	had = *value != ""
	*value = with
	return had
}

// state is what is left in the bands of a decision.
func state(d *fluxgate.Decision) []string {
	var all []string
	for b := range d.Bands() {
		all = append(all, stateOf(&b))
	}
	return all
}

func stateOf(b *fluxgate.BandStatus) string {
	return fmt.Sprintf("%s.%s %d of %d, full in %v", b.Rule.ID, b.Band.Name(), b.Remaining, b.Limit, b.FullAfter)
}
