package fluxgate_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// overridden is an engine over rules with a clock, whose overrides can be changed.
type overridden struct {
	t      *testing.T
	now    time.Time
	engine *fluxgate.Engine
	set    *fluxgate.Compiled
	table  *fluxgate.Overrides
	store  *memstore.Store
}

func (o *overridden) RuleSet(context.Context, string) *fluxgate.Compiled { return o.set }

func newOverridden(t *testing.T, rule ...rules.Rule) *overridden {
	t.Helper()
	o := &overridden{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	buckets := newStore(t, func() time.Time { return o.now })
	o.store, o.table = buckets, fluxgate.NewOverrides(buckets, 0)
	o.change(rule...)
	o.engine = fluxgate.Must(fluxgate.New(buckets, o, fluxgate.WithRuleSet("api"), fluxgate.WithOverrides(o.table)))
	return o
}

func (o *overridden) change(rule ...rules.Rule) {
	o.t.Helper()
	o.set = fluxgate.Must(fluxgate.Compile(fluxgate.Must(rules.NewSet("api", rule...))))
}

// put checks and applies overrides.
func (o *overridden) put(changes ...rules.Override) {
	o.t.Helper()
	for i := range changes {
		changes[i].RuleSetID = "api"
		if err := o.table.Check(o.set.Set, &changes[i]); err != nil {
			o.t.Fatal(err)
		}
	}
	o.table.Apply(o.set, changes)
}

func (o *overridden) check(req fluxgate.Request) fluxgate.Decision {
	o.t.Helper()
	d, err := o.engine.Check(o.t.Context(), &req)
	if err != nil {
		o.t.Fatal(err)
	}
	return d
}

// admitted is how many of many requests are admitted at once.
func (o *overridden) admitted(req fluxgate.Request) (n int) {
	o.t.Helper()
	for range 2_000 {
		if o.check(req).Allowed {
			n++
		}
	}
	return n
}

func user(id string) fluxgate.Request { return fluxgate.Request{UserID: id} }

func perUser(bands ...rules.Band) rules.Rule {
	return rules.Rule{ID: "standard", Scope: rules.ScopeUser, Bands: bands}
}

func times(of string, n rules.Times) rules.Override {
	return rules.Override{RuleID: "standard", Identity: map[string]string{"userId": of}, Times: n}
}

func TestOverrides_OneCaller(t *testing.T) {
	o := newOverridden(t, perUser(rules.PerHour(10)))
	o.put(times("acme", 2_500))
	if n := o.admitted(user("acme")); n != 25 {
		t.Errorf("with an override of 2.5 times 10, %d requests were admitted", n)
	}
	if n := o.admitted(user("other")); n != 10 {
		t.Errorf("of another caller %d requests were admitted, not 10", n)
	}
}

// An override is a change of the rule for one caller: what was used carries over alike.
func TestOverrides_AreRuleChanges(t *testing.T) {
	kinds := map[string]rules.Band{
		"token bucket": {Capacity: 40, RefillTokens: 7, Refill: time.Minute},
		"quota":        {Kind: rules.Quota, Capacity: 40, Period: "day"},
		"window":       {Kind: rules.SlidingWindow, Capacity: 40, Refill: time.Hour},
		"slots":        {Kind: rules.Concurrency, Capacity: 40, Hold: time.Hour},
	}
	for name, band := range kinds {
		t.Run(name, func(t *testing.T) {
			changed, over := newOverridden(t, perUser(band)), newOverridden(t, perUser(band))
			for i, n := range []rules.Times{3_000, 500, 10, 1_000} {
				bands, err := over.set.At(0).Overridden(n, nil)
				if err != nil {
					t.Fatal(err)
				}
				for range 11 * (i + 1) {
					a, b := changed.check(user("acme")), over.check(user("acme"))
					if a.Allowed != b.Allowed || a.Remaining != b.Remaining || a.Limit != b.Limit || a.RetryAfter != b.RetryAfter {
						t.Fatalf("the rule decides %+v, and the override %+v", a, b)
					}
				}
				changed.change(perUser(bands...))
				over.put(times("acme", n))
				changed.now, over.now = changed.now.Add(7*time.Minute), over.now.Add(7*time.Minute)
			}
		})
	}
}

func TestOverrides_End(t *testing.T) {
	o := newOverridden(t, perUser(rules.Band{Capacity: 10, Refill: 24 * time.Hour}))
	end := o.now.Add(time.Hour)
	change := times("acme", 10_000)
	change.Until = end
	o.put(change)
	if d := o.check(user("acme")); d.Limit != 100 {
		t.Errorf("the limit is %d, not 100", d.Limit)
	}
	o.now = end.Add(-time.Microsecond)
	if d := o.check(user("acme")); d.Limit != 100 {
		t.Errorf("just before the end the limit is %d, not 100", d.Limit)
	}
	o.now = end
	if d := o.check(user("acme")); d.Limit != 10 {
		t.Errorf("at the end the limit is %d, not 10", d.Limit)
	}
}

func TestOverrides_Identities(t *testing.T) {
	ip := netip.MustParseAddr
	tests := map[string]struct {
		rule     rules.Rule
		identity map[string]string
		its, not fluxgate.Request
	}{
		"everyone": {rules.Rule{}, nil, fluxgate.Request{}, fluxgate.Request{}},
		"an address": {
			rules.Rule{Scope: rules.ScopeIP}, map[string]string{"ip": "192.0.2.1"},
			fluxgate.Request{IP: ip("192.0.2.1")}, fluxgate.Request{IP: ip("192.0.2.2")},
		},
		"an address in IPv6": {
			rules.Rule{Scope: rules.ScopeIP}, map[string]string{"ip": "192.0.2.1"},
			fluxgate.Request{IP: ip("::ffff:192.0.2.1")}, fluxgate.Request{IP: ip("::ffff:192.0.2.2")},
		},
		"a network": {
			rules.Rule{Scope: rules.ScopeIP}, map[string]string{"ip": "2001:db8:1:2::/64"},
			fluxgate.Request{IP: ip("2001:db8:1:2::7")}, fluxgate.Request{IP: ip("2001:db8:1:3::7")},
		},
		"an address of a network": {
			rules.Rule{Scope: rules.ScopeIP}, map[string]string{"ip": "2001:db8:1:2::9"},
			fluxgate.Request{IP: ip("2001:db8:1:2::7")}, fluxgate.Request{IP: ip("2001:db8:1:3::7")},
		},
		"an API key": {
			rules.Rule{Scope: rules.ScopeAPIKey}, map[string]string{"apiKey": "secret-1"},
			fluxgate.Request{APIKey: "secret-1"}, fluxgate.Request{APIKey: rules.DigestAPIKey("secret-1")},
		},
		"the digest of an API key": {
			rules.Rule{Scope: rules.ScopeAPIKey}, map[string]string{"apiKey": strings.ToUpper(rules.DigestAPIKey("secret-1")[7:])},
			fluxgate.Request{APIKey: strings.ToUpper(rules.DigestAPIKey("secret-1")[7:])}, fluxgate.Request{APIKey: "secret-1"},
		},
		"a header with a secret": {
			rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"header:authorization", "userId"}},
			map[string]string{"header:Authorization": "Bearer secret-1", "userId": "a"},
			fluxgate.Request{UserID: "a", Headers: map[string][]string{"authorization": {"Bearer secret-1"}}},
			fluxgate.Request{UserID: "a", Headers: map[string][]string{"Authorization": {rules.DigestAPIKey("Bearer secret-1")}}},
		},
		"the digest of a header": {
			rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"header:X-Api-Key"}},
			map[string]string{"header:X-Api-Key": rules.DigestAPIKey("secret-1")},
			fluxgate.Request{Headers: map[string][]string{"X-Api-Key": {"secret-1"}}},
			fluxgate.Request{Headers: map[string][]string{"X-Api-Key": {"secret-1", "secret-1"}}},
		},
		"an attribute with a secret": {
			rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"attr:session", "apiKey"}},
			map[string]string{"attr:session": "s", "apiKey": "k"},
			fluxgate.Request{APIKey: "k", Attributes: map[string]string{"session": "s"}},
			fluxgate.Request{APIKey: "s", Attributes: map[string]string{"session": "k"}},
		},
		"a custom key": {
			rules.Rule{Scope: rules.ScopeCustom, KeyFields: []string{"attr:tenant"}}, map[string]string{"attr:tenant": "acme"},
			fluxgate.Request{Attributes: map[string]string{"tenant": "acme"}}, fluxgate.Request{Attributes: map[string]string{"tenant": "acme "}},
		},
		"an entry of a descriptor": {
			rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"descriptor:client"}}, map[string]string{"descriptor:client": "acme=1&x"},
			described("plan", "gold", "client", "acme=1&x", "client", "other"), described("plan", "gold", "client", "other", "client", "acme=1&x"),
		},
		"entries of a descriptor, and a user": {
			rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"descriptor:plan", "userId", "descriptor:client"}},
			map[string]string{"descriptor:client": "acme", "descriptor:plan": "gold", "userId": "ada"},
			withUser("ada", described("client", "acme", "plan", "gold")), withUser("ada", described("client", "gold", "plan", "acme")),
		},
		"a whole descriptor": {
			rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"descriptor"}}, map[string]string{"descriptor": "client=a%26b+c&plan=gold"},
			described("client", "a&b c", "plan", "gold"), described("plan", "gold", "client", "a&b c"),
		},
		"a secret entry of a descriptor": {
			rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"descriptor:api_key"}}, map[string]string{"descriptor:api_key": "k"},
			described("api_key", "k"), described("api_key", "other"),
		},
		"several parts": {
			rules.Rule{Scope: rules.ScopeComposite, IgnoreCase: true, KeyFields: []string{"userId", "method", "path", "header:x-plan", "apiKey"}},
			map[string]string{"apiKey": "k", "userId": "a|b", "method": "head", "path": "/A/../b", "header:x-plan": "gold"},
			fluxgate.Request{UserID: "a|b", Method: "GET", Path: "/B", APIKey: "k", Headers: map[string][]string{"x-plan": {"gold"}}},
			fluxgate.Request{UserID: "a", Method: "GET", Path: "/B", APIKey: "k", Headers: map[string][]string{"X-Plan": {"gold"}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.rule.ID, test.rule.Bands = "standard", []rules.Band{rules.PerHour(10)}
			o := newOverridden(t, test.rule)
			o.put(rules.Override{RuleID: "standard", Identity: test.identity, Times: 2_000})
			for range 2 { // the second finds a secret by its bucket
				if d := o.check(test.its); d.Limit != 20 {
					t.Errorf("the limit is %d, not 20", d.Limit)
				}
			}
			if d := o.check(test.not); d.Limit != 10 && name != "everyone" {
				t.Errorf("of another caller the limit is %d, not 10", d.Limit)
			}
			o.put(rules.Override{RuleID: "standard", Identity: test.identity, Times: 3_000})
			if d := o.check(test.its); d.Limit != 30 {
				t.Errorf("after a change the limit is %d, not 30", d.Limit)
			}
			o.put(rules.Override{RuleID: "standard", Identity: test.identity, Deleted: true})
			if d := o.check(test.its); d.Limit != 10 {
				t.Errorf("after the deletion the limit is %d, not 10", d.Limit)
			}
			if n := o.table.Len(); n != 0 {
				t.Errorf("after the deletion there are %d overrides", n)
			}
		})
	}
}

// described is a request with a descriptor of keys and values.
func described(pairs ...string) (req fluxgate.Request) {
	for i := 0; i < len(pairs); i += 2 {
		req.Descriptor = append(req.Descriptor, fluxgate.DescriptorEntry{Key: pairs[i], Value: pairs[i+1]})
	}
	return req
}

func withUser(user string, req fluxgate.Request) fluxgate.Request {
	req.UserID = user
	return req
}

func TestOverrides_Refused(t *testing.T) {
	composite := rules.Rule{ID: "standard", Scope: rules.ScopeComposite, KeyFields: []string{"userId", "ip"}, Bands: []rules.Band{rules.PerHour(10)}}
	descriptor := rules.Rule{ID: "descriptor", Scope: rules.ScopeComposite, KeyFields: []string{"descriptor"}, Bands: []rules.Band{rules.PerHour(10)}}
	deny := rules.Rule{ID: "deny", Action: rules.ActionDeny}
	o := newOverridden(t, composite, descriptor, deny)
	both := map[string]string{"userId": "a", "ip": "192.0.2.1"}
	tests := map[string]struct {
		change rules.Override
		want   string
	}{
		"no rule":             {rules.Override{RuleID: "other", Identity: both, Times: 1}, "no such rule"},
		"no limit":            {rules.Override{RuleID: "deny", Times: 1}, "does not limit"},
		"a missing part":      {rules.Override{RuleID: "standard", Identity: map[string]string{"userId": "a"}, Times: 1}, "has no ip"},
		"another part":        {rules.Override{RuleID: "standard", Identity: map[string]string{"userId": "a", "ip": "192.0.2.1", "path": "/"}, Times: 1}, "other parts"},
		"another entry":       {rules.Override{RuleID: "descriptor", Identity: map[string]string{"descriptor:user": "a"}, Times: 1}, "has no descriptor"},
		"no entries":          {rules.Override{RuleID: "descriptor", Identity: map[string]string{"descriptor": "&"}, Times: 1}, "1 to 16 entries"},
		"17 entries":          {rules.Override{RuleID: "descriptor", Identity: map[string]string{"descriptor": strings.Repeat("a=b&", 16) + "a=b"}, Times: 1}, "1 to 16 entries"},
		"not encoded":         {rules.Override{RuleID: "descriptor", Identity: map[string]string{"descriptor": "a=%zz"}, Times: 1}, "1 to 16 entries"},
		"a secret entry":      {rules.Override{RuleID: "descriptor", Identity: map[string]string{"descriptor": "a=b&password=x"}, Times: 1}, "may be a secret"},
		"no address":          {rules.Override{RuleID: "standard", Identity: map[string]string{"userId": "a", "ip": "there"}, Times: 1}, "an address"},
		"a larger network":    {rules.Override{RuleID: "standard", Identity: map[string]string{"userId": "a", "ip": "2001:db8::/48"}, Times: 1}, "/64"},
		"an IPv4 network":     {rules.Override{RuleID: "standard", Identity: map[string]string{"userId": "a", "ip": "192.0.2.0/24"}, Times: 1}, "an address"},
		"no number":           {rules.Override{RuleID: "standard", Identity: both}, "either times or bands"},
		"both":                {rules.Override{RuleID: "standard", Identity: both, Times: 1, Bands: []rules.Band{rules.PerHour(1)}}, "either times or bands"},
		"too large":           {rules.Override{RuleID: "standard", Identity: both, Times: 1 << 62}, "53-bit"},
		"a negative factor":   {rules.Override{RuleID: "standard", Identity: both, Times: -1}, "above 0"},
		"more bands":          {rules.Override{RuleID: "standard", Identity: both, Bands: []rules.Band{rules.PerHour(1), rules.PerDay(1)}}, "1 bands, not 2"},
		"another period":      {rules.Override{RuleID: "standard", Identity: both, Bands: []rules.Band{rules.PerDay(1)}}, "another label"},
		"another label":       {rules.Override{RuleID: "standard", Identity: both, Bands: []rules.Band{{Label: "x", Capacity: 1, Refill: time.Hour}}}, "another label"},
		"no capacity":         {rules.Override{RuleID: "standard", Identity: both, Bands: []rules.Band{{Refill: time.Hour}}}, "capacity"},
		"8 KiB":               {rules.Override{RuleID: "standard", Identity: map[string]string{"userId": strings.Repeat("a", 8<<10), "ip": "192.0.2.1"}, Times: 1}, "bytes of UTF-8"},
		"not UTF-8":           {rules.Override{RuleID: "standard", Identity: map[string]string{"userId": "\xff", "ip": "192.0.2.1"}, Times: 1}, "bytes of UTF-8"},
		"a reason of control": {rules.Override{RuleID: "standard", Identity: both, Times: 1, Reason: "\x1b"}, "reason"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.change.RuleSetID = "api"
			err := o.table.Check(o.set.Set, &test.change)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, not one with %q", err, test.want)
			}
		})
	}
}

// What does not fit after a change of the rules is named and not applied, and applied again
// when it fits.
func TestOverrides_Problems(t *testing.T) {
	o := newOverridden(t, perUser(rules.PerHour(10)))
	own := rules.Override{RuleID: "standard", Identity: map[string]string{"userId": "own"}, Bands: []rules.Band{rules.PerHour(77)}}
	o.put(times("acme", 2_000), own)
	problems := func() (texts []string) {
		for _, p := range o.table.Problems(o.set.Set) {
			texts = append(texts, fmt.Sprint(p.Rule, " ", p.ID != "", " ", p.Err))
		}
		return texts
	}
	if p := problems(); len(p) > 0 {
		t.Fatalf("problems %q", p)
	}
	o.change(perUser(rules.PerDay(10)))
	if p := problems(); len(p) != 1 || !strings.Contains(p[0], "standard true band 0 has another label, kind or period") {
		t.Errorf("problems %q", p)
	}
	if own, acme := o.check(user("own")).Limit, o.check(user("acme")).Limit; own != 10 || acme != 20 {
		t.Errorf("limits %d and %d, not 10 and 20", own, acme)
	}
	o.change(rules.Rule{ID: "standard", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerHour(10)}})
	if p := problems(); len(p) != 2 || !strings.Contains(p[0], "the key of the rule is ip, not userId") || !o.table.Stale(o.set) {
		t.Errorf("problems %q", p)
	}
	o.change(rules.Rule{ID: "another", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerHour(10)}})
	if p := problems(); len(p) != 2 || !strings.Contains(p[0], "there is no such rule") {
		t.Errorf("problems %q", p)
	}
	o.change(perUser(rules.PerHour(10)))
	if p := problems(); len(p) > 0 || o.check(user("own")).Limit != 77 {
		t.Errorf("problems %q", p)
	}
}

// Loading replaces all overrides of a rule set, and leaves others.
func TestOverrides_Load(t *testing.T) {
	o := newOverridden(t, perUser(rules.PerHour(10)))
	other := fluxgate.Must(fluxgate.Compile(fluxgate.Must(rules.NewSet("other", perUser(rules.PerHour(10))))))
	o.put(times("a", 2_000), times("b", 3_000))
	o.table.Apply(other, []rules.Override{times("a", 4_000)})
	pages := func(pages ...[]rules.Override) func(func([]rules.Override, error) bool) {
		return func(yield func([]rules.Override, error) bool) {
			for _, page := range pages {
				if !yield(page, nil) {
					return
				}
			}
		}
	}
	if err := o.table.Load(o.set, pages([]rules.Override{times("b", 5_000)}, []rules.Override{times("c", 6_000)})); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]int64{"a": 10, "b": 50, "c": 60} {
		if d := o.check(user(id)); d.Limit != want {
			t.Errorf("the limit of %s is %d, not %d", id, d.Limit, want)
		}
	}
	if o.table.Len() != 3 {
		t.Errorf("%d overrides, not 3", o.table.Len())
	}
	failed := func(yield func([]rules.Override, error) bool) {
		_ = yield([]rules.Override{times("b", 9_000), times("d", 9_000)}, nil) && yield(nil, context.Canceled)
	}
	if err := o.table.Load(o.set, failed); err == nil || o.table.Len() != 3 || o.check(user("b")).Limit != 50 {
		t.Errorf("after a failed load there are %d overrides, not 3: %v", o.table.Len(), err)
	}
	dropped := func(yield func([]rules.Override, error) bool) {
		o.table.Drop("other")
		yield([]rules.Override{times("b", 9_000)}, nil)
	}
	if err := o.table.Load(other, dropped); err == nil || o.table.Loaded("other") || o.table.Len() != 2 {
		t.Errorf("overrides that were dropped while they were loaded are there: %v", err)
	}
	o.table.Apply(other, []rules.Override{times("a", 4_000)})
	if o.table.Drop("api"); o.table.Len() != 1 || o.check(user("b")).Limit != 10 {
		t.Errorf("after they were dropped there are %d overrides", o.table.Len())
	}
}

// Explain and Buckets have the numbers of the override, under the names of the rule.
func TestOverrides_Explain(t *testing.T) {
	o := newOverridden(t, perUser(rules.PerHour(10)))
	end := o.now.Add(time.Hour)
	change := times("acme", 2_000)
	change.Until = end
	o.put(change)
	req := user("acme")
	x, err := o.engine.Explain(t.Context(), &req)
	if err != nil {
		t.Fatal(err)
	}
	if over := x.Rules[0].Override; over == nil || over.Times != 2_000 || !over.Until.Equal(end) || x.Decision.Limit != 20 {
		t.Errorf("explained as %+v with the limit %d", over, x.Decision.Limit)
	}
	if x.Decision.Band != "10-per-1h" {
		t.Errorf("the band is %s", x.Decision.Band)
	}
	buckets, err := o.engine.Buckets(t.Context(), &req)
	if err != nil {
		t.Fatal(err)
	}
	if b := buckets[0].Bands[0]; b.Limit != 20 || b.Band.Capacity != 20 || b.Band.Name() != "10-per-1h" {
		t.Errorf("the bucket has %+v %+v", b, b.Band)
	}
	o.now = end
	if x, _ := o.engine.Explain(t.Context(), &req); x.Rules[0].Override != nil {
		t.Error("an override applies after its end")
	}
}

// Overrides cost a decision no allocation. The race detector drops pooled values.
func TestOverrides_NoAllocation_NoRace(t *testing.T) {
	req := fluxgate.Request{UserID: "acme", APIKey: "a-key-of-more-than-thirty-two-bytes-of-text"}
	count := func(changes ...rules.Override) float64 {
		byKey := rules.Rule{ID: "key", Scope: rules.ScopeAPIKey, Bands: []rules.Band{rules.PerHour(1_000_000)}}
		o := newOverridden(t, perUser(rules.PerHour(1_000_000)), byKey)
		o.put(changes...)
		few := testing.AllocsPerRun(200, func() { o.check(req) })
		for range 4 { // the runtime may allocate meanwhile
			few = min(few, testing.AllocsPerRun(200, func() { o.check(req) }))
		}
		return few
	}
	if before, now := count(), count(times("acme", 2_000), times("another", 3_000)); now > before {
		t.Errorf("%v allocations with overrides, %v without", now, before)
	}
}

// BenchmarkOverrides compares decisions without overrides with those of callers that have
// one of 100,000, and of callers that have none.
func BenchmarkOverrides(b *testing.B) {
	for name, n := range map[string]int{"without": 0, "with": 100_000, "of-others": -100_000} {
		b.Run(name, func(b *testing.B) {
			buckets := newStore(b, time.Now)
			set := fluxgate.Must(rules.NewSet("api", perUser(rules.PerSecond(1_000_000))))
			table := fluxgate.NewOverrides(buckets, 0)
			var changes []rules.Override
			for i := range max(n, -n) {
				change := times(fmt.Sprintf("user-%d", i*n), 2_000)
				changes = append(changes, change)
			}
			table.Apply(fluxgate.Must(fluxgate.Compile(set)), changes)
			engine := fluxgate.Must(fluxgate.New(buckets, fluxgate.Static(set), fluxgate.WithOverrides(table)))
			ids := make([]string, 4_096)
			for i := range ids {
				ids[i] = fmt.Sprintf("user-%d", i*100_000)
			}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if _, err := engine.Check(b.Context(), &fluxgate.Request{UserID: ids[i%len(ids)]}); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}

// Numbers that one override has stay known when it is put again, and a rule that is gone is
// reason to load again: overrides may be deleted meanwhile.
func TestOverrides_Stale(t *testing.T) {
	o := newOverridden(t, perUser(rules.PerHour(10)))
	own := rules.Override{RuleID: "standard", Identity: map[string]string{"userId": "own"}, Bands: []rules.Band{rules.PerHour(77)}}
	for range 3 {
		o.put(own, times("acme", 2_000))
	}
	if o.table.Stale(o.set) {
		t.Error("stale without a change")
	}
	o.change(rules.Rule{ID: "standard", Scope: rules.ScopeComposite, KeyFields: []string{"userId", "ip"}, Bands: []rules.Band{rules.PerHour(10)}})
	if !o.table.Stale(o.set) || len(o.table.Problems(o.set.Set)) != 2 {
		t.Errorf("problems %v after a change of the key", o.table.Problems(o.set.Set))
	}
	o.change(rules.Rule{ID: "another", Bands: []rules.Band{rules.PerHour(10)}})
	if !o.table.Stale(o.set) {
		t.Error("not stale although the rule is gone")
	}
}

// A function that names the callers decides whose bucket it is: the override of an API key is
// not one of all API keys that it calls the same.
func TestOverrides_OwnIdentity(t *testing.T) {
	o := newOverridden(t, rules.Rule{ID: "standard", Scope: rules.ScopeAPIKey, Bands: []rules.Band{rules.PerHour(10)}})
	byTenant := func(_ *rules.Rule, _ *fluxgate.Request) string { return "tenant" }
	buckets := newStore(t, func() time.Time { return o.now })
	o.table = fluxgate.NewOverrides(buckets, 0)
	o.engine = fluxgate.Must(fluxgate.New(buckets, o, fluxgate.WithRuleSet("api"), fluxgate.WithOverrides(o.table), fluxgate.WithIdentity(byTenant)))
	o.put(rules.Override{RuleID: "standard", Identity: map[string]string{"apiKey": "a"}, Times: 2_000})
	for _, key := range []string{"a", "b"} {
		if d := o.check(fluxgate.Request{APIKey: key}); d.Limit != 10 {
			t.Errorf("the limit of %s is %d, not 10", key, d.Limit)
		}
	}
}
