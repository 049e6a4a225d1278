package envoyratelimit_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/envoyrules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// outcome is what applies to a descriptor. The zero value is no limit.
type outcome struct {
	name                     string
	unlimited, shadow, quota bool
	requests                 int64
	unit                     string
}

// For random configurations and descriptors both find the same limit, and count the same
// descriptors together. Both refuse the same configurations.
func TestLookup(t *testing.T) {
	const configurations, descriptors = 3_000, 60
	var refused, matched, shared int
	for seed := range uint64(configurations) {
		g := generator{Rand: rand.New(rand.NewPCG(seed, 16)), sharing: seed%2 == 0}
		text := g.configuration()
		theirs, refusal := loadOriginal(text)
		set, _, err := envoyrules.Parse("a.yaml", text)
		if (refusal == nil) != (err == nil) {
			t.Fatalf("envoyproxy/ratelimit says %v\nwe say %v\nof %s", refusal, err, text)
		}
		if err != nil {
			refused++
			continue
		}
		ours := newEngine(t, set)
		counters := map[string]store.Key{}
		byKey := map[store.Key]string{}
		for range descriptors {
			entries := g.descriptor()
			want, counter := theirs.limit("d", entries)
			got, key := ours.limit(t, entries)
			if got != want {
				t.Fatalf("%v: %+v, want %+v\nby %s", entries, got, want, text)
			}
			if want != (outcome{}) {
				matched++
			}
			if counter == "" {
				continue
			}
			if known, ok := counters[counter]; ok {
				shared++
				if known != key {
					t.Fatalf("%v: does not count in the same bucket as other descriptors of %s\nby %s", entries, counter, text)
				}
			} else if other, taken := byKey[key]; taken {
				t.Fatalf("%v: counts in the bucket of %s, not of %s\nby %s", entries, other, counter, text)
			}
			counters[counter], byKey[key] = key, counter
		}
	}
	t.Logf("%d of %d configurations refused, %d limits found, %d in a counter seen before", refused, configurations, matched, shared)
	if refused < configurations/20 || refused > configurations/2 || matched < 10_000 || shared < 1_000 {
		t.Error("the random inputs compare too little")
	}
}

// Names of routes in Envoy Gateway have a * in place of a host name, in the key and in the
// value. Both find the limits of the descriptors that its proxies send.
func TestLookup_Routes(t *testing.T) {
	text := []byte(`domain: d
descriptors:
  - {key: shop/0/*, value: shop/0/*, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: shop/1/*_example_com, value: shop/1/*_example_com, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 6}}]}
`)
	theirs, err := loadOriginal(text)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := envoyrules.Parse("a.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	ours := newEngine(t, set)
	for route, requests := range map[string]int64{"shop/0/*": 5, "shop/1/*_example_com": 6, "shop/2/*": 0} {
		entries := []fluxgate.DescriptorEntry{{Key: route, Value: route}}
		if requests == 6 {
			entries = append(entries, fluxgate.DescriptorEntry{Key: "user", Value: "ada"})
		}
		want, _ := theirs.limit("d", entries)
		if got, _ := ours.limit(t, entries); got != want || got.requests != requests {
			t.Errorf("%v: %+v, envoyproxy/ratelimit has %+v, want %d", entries, got, want, requests)
		}
	}
}

// engine is an engine with one rule set.
type engine struct{ *fluxgate.Engine }

func newEngine(t *testing.T, set *rules.Set) engine {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	e, err := fluxgate.New(store, fluxgate.Static(set), fluxgate.WithRuleSet(set.ID()))
	if err != nil {
		t.Fatal(err)
	}
	return engine{e}
}

// limit returns what applies to a descriptor, by the explanation and by the decision.
func (e engine) limit(t *testing.T, entries []fluxgate.DescriptorEntry) (outcome, store.Key) {
	t.Helper()
	request := &fluxgate.Request{Descriptor: entries}
	decision, err := e.Check(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	_, verdicts, err := e.Effective(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var found outcome
	var key store.Key
	id := ""
	for _, v := range verdicts {
		if !v.Applies {
			continue
		}
		if id != "" {
			t.Fatalf("%v: both %s and %s apply", entries, id, v.Rule.ID)
		}
		id, key = v.Rule.ID, v.Key
		found.name, _ = v.Rule.Attributes[envoyrules.AttributeName].(string)
		found.unlimited = v.Rule.Action == rules.ActionAllow
		found.shadow, found.quota = v.Rule.Mode == rules.ModeShadow, v.Rule.Mode == rules.ModeAlternative
		for _, b := range v.Rule.Bands {
			found.requests, found.unit = b.Capacity, strings.ToUpper(string(b.Period))
		}
		if v.Rule.Action == rules.ActionDeny {
			found.unit = "SECOND" // the generator's unit of limits without requests
		}
	}
	denied := found != (outcome{}) && !found.unlimited && !found.shadow && found.requests == 0
	if decision.Allowed == denied || found.requests > 0 && !found.shadow && decision.RuleID != id {
		t.Fatalf("%v: decided as %+v, but the explanation is %+v", entries, decision, found)
	}
	return found, key
}

// generator makes configurations and descriptors that often meet.
type generator struct {
	*rand.Rand
	limits int
	// sharing is whether wildcards share thresholds. That is refused for paths that have
	// a key twice, so that keys are different at each level.
	sharing bool
}

func (g *generator) key(depth int) string {
	key := g.oneOf("a", "a", "b")
	if g.sharing {
		key += string(rune('0' + depth))
	}
	return key
}

func (g *generator) oneOf(values ...string) string { return values[g.IntN(len(values))] }

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// configuration returns JSON, which is YAML.
func (g *generator) configuration() []byte {
	text, err := json.Marshal(map[string]any{"domain": "d", "descriptors": g.descriptors(0)})
	if err != nil {
		panic(err)
	}
	return text
}

func (g *generator) descriptors(depth int) []any {
	var all []any
	used := map[string]bool{}
	for range 1 + g.IntN(6) {
		d := map[string]any{"key": g.key(depth)}
		if value := g.oneOf("", "", "x", "xy", "xyz", "y", "1", "x*", "xy*", "xyz*", "*", "y*"); value != "" {
			d["value"] = value
		}
		if name := fmt.Sprint(d["key"], d["value"]); used[name] && g.chance(98) {
			continue // a duplicate is refused
		} else {
			used[name] = true
		}
		if g.chance(75) {
			d["rate_limit"] = g.rateLimit()
		}
		for _, flag := range []string{"shadow_mode", "quota_mode", "detailed_metric", "value_to_metric"} {
			if g.chance(10) {
				d[flag] = g.chance(80)
			}
		}
		if wildcard := strings.HasSuffix(fmt.Sprint(d["value"]), "*"); g.sharing && wildcard && g.chance(40) || !wildcard && g.chance(1) {
			d["share_threshold"] = true
		}
		if depth < 3 && g.chance(50-10*depth) {
			d["descriptors"] = g.descriptors(depth + 1)
		}
		all = append(all, d)
	}
	return all
}

func (g *generator) rateLimit() map[string]any {
	g.limits++
	limit := map[string]any{"name": fmt.Sprintf("limit-%d", g.limits)}
	switch n := g.IntN(100); {
	case n < 1: // refused: no unit
	case n < 2: // refused: both
		limit["unlimited"], limit["unit"] = true, "second"
	case n < 12:
		limit["unlimited"] = true
	case n < 22:
		limit["unit"], limit["requests_per_unit"] = "second", 0
	default:
		limit["unit"] = g.oneOf("second", "Minute", "HOUR", "day", "week", "month", "year")
		limit["requests_per_unit"] = 1_000 + g.IntN(1_000_000)
	}
	if g.chance(5) {
		limit["replaces"] = []any{map[string]any{"name": fmt.Sprintf("limit-%d", 1+g.IntN(10))}}
	}
	return limit
}

// descriptor returns the entries of a request.
func (g *generator) descriptor() []fluxgate.DescriptorEntry {
	var entries []fluxgate.DescriptorEntry
	for depth := range g.IntN(5) {
		entries = append(entries, fluxgate.DescriptorEntry{
			Key: g.key(depth), Value: g.oneOf("", "x", "xy", "xyz", "xyzz", "xx", "y", "yy", "z", "1"),
		})
	}
	return entries
}

// The differences that the documentation of package envoyrules lists.
func TestDifferences(t *testing.T) {
	text := []byte(`{"domain": "d", "descriptors": [
		{"key": "a_b", "rate_limit": {"unit": "day", "requests_per_unit": 1, "name": "joined"}},
		{"key": "c", "value": "x*", "rate_limit": {"unit": "day", "requests_per_unit": 2, "name": "first"}},
		{"key": "c", "value": "xy*", "rate_limit": {"unit": "day", "requests_per_unit": 3, "name": "second"}}]}`)
	theirs, err := loadOriginal(text)
	if err != nil {
		t.Fatal(err)
	}
	set, _, err := envoyrules.Parse("a.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	ours := newEngine(t, set)
	for _, c := range []struct {
		entry        fluxgate.DescriptorEntry
		theirs, ours string
	}{
		{fluxgate.DescriptorEntry{Key: "a", Value: "b"}, "joined", ""},
		{fluxgate.DescriptorEntry{Key: "a_b", Value: "x"}, "joined", "joined"},
		{fluxgate.DescriptorEntry{Key: "c", Value: "xy*"}, "second", "first"},
		{fluxgate.DescriptorEntry{Key: "c", Value: "xyz"}, "first", "first"},
	} {
		entries := []fluxgate.DescriptorEntry{c.entry}
		want, _ := theirs.limit("d", entries)
		got, _ := ours.limit(t, entries)
		if want.name != c.theirs || got.name != c.ours {
			t.Errorf("%v: envoyproxy/ratelimit finds %q, we %q, want %q and %q", c.entry, want.name, got.name, c.theirs, c.ours)
		}
	}
}
