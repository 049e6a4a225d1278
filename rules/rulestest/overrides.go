package rulestest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

var overrideChecks = []Check{
	{"an override is read with every field until it is deleted", everyOverrideField},
	{"an unknown override or rule set is not found", unknownOverrides},
	{"the revisions of overrides of many rule sets have all known ids", overrideRevisions},
	{"the overrides of a rule set are its own", separateRuleSets},
	{"an identity is kept as it is", overrideIdentities},
	{"an API key is kept as its digest", overrideSecret("apiKey")},
	{"a header with a secret is kept as its digest", overrideSecret("header:Authorization")},
	{"reading and writing overrides end with their context", overrideContext},
	{"a change of an override is seen by every editor when it is made", overrideSeen},
}

func everyOverrideField(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	full := f.of("full", 0)
	full.Identity["attr:tenant"] = "acme"
	full.Bands = []rules.Band{
		{Label: "burst", Capacity: 10, RefillTokens: 3, Refill: time.Second}, {Kind: rules.Quota, Capacity: 7, Period: "day"},
		{Kind: rules.Concurrency, Capacity: 5, Hold: time.Minute}, {Kind: rules.SlidingWindow, Capacity: 1_001, Refill: time.Hour},
	}
	full.Until, full.Reason = time.Date(2100, 1, 2, 3, 4, 5, 123_456_000, time.UTC), "a launch\nwith \"quotes\""
	factor := f.of("factor", 1_250)
	for _, o := range []rules.Override{full, f.longest(), factor} {
		given := o
		given.Identity = maps.Clone(o.Identity)
		given.Bands = append([]rules.Band(nil), o.Bands...)
		before := time.Now()
		revision := f.put(given)
		given.Identity["userId"] = "changed by the caller"
		if len(given.Bands) > 0 {
			given.Bands[0].Capacity++
		}
		got := f.get(o.ID())
		if got.Revision != revision || f.revision() != revision {
			t.Errorf("an override that was put with revision %d has revision %d, and the rule set %d", revision, got.Revision, f.revision())
		}
		if age := got.At.Sub(before); age < -time.Minute || age > f.Patience {
			t.Errorf("an override that was put at %v is dated %v", before, got.At)
		}
		want := based(o, revision)
		want.At = got.At
		if text(got) != text(want) {
			t.Errorf("Override returns %s, want %s", text(got), text(want))
		}
		if listed := f.listed()[o.ID()]; listed != text(got) {
			t.Errorf("the list has %s, want %s", listed, text(got))
		}
		page, err := f.Overrides.OverrideChanges(f.Context(), f.set, revision-1, 0)
		if err != nil || len(page.Overrides) != 1 || text(page.Overrides[0]) != text(got) || page.Revision != revision {
			t.Errorf("the changes are %+v (%v), want %s", page, err, text(got))
		}
	}
	f.put(deletion(full), deletion(f.longest()))
	if _, err := f.Overrides.Override(f.Context(), f.set, full.ID()); !errors.Is(err, rules.ErrNotFound) {
		t.Errorf("a deleted override: error %v, want ErrNotFound", err)
	}
	if list := f.listed(); len(list) != 1 || list[factor.ID()] == "" {
		t.Errorf("after two of three overrides were deleted the list has %d", len(list))
	}
	f.put(full)
	if got := f.get(full.ID()); got.Revision != f.revision() || len(f.listed()) != 2 {
		t.Errorf("a deleted override was put again with revision %d of %d; the list has %d", got.Revision, f.revision(), len(f.listed()))
	}
}

// longest returns an override that is as long as one can be.
func (f *overriding) longest() rules.Override {
	o := f.of(strings.Repeat("\x01", 1<<10), 0)
	o.Author, o.Reason = strings.Repeat("<", 256), strings.Repeat("<", 1<<10)
	for _, name := range []string{"attr:a", "attr:b", "attr:c"} {
		o.Identity[name] = strings.Repeat("\x01", 1<<10-8)
	}
	for i := range 16 {
		o.Bands = append(o.Bands, rules.Band{
			Label: fmt.Sprintf("%064d", i), Kind: rules.Quota, Capacity: 1e9, Period: "month", Timezone: "America/Argentina/ComodRivadavia",
		})
	}
	o.Until = time.Date(2100, 1, 2, 3, 4, 5, 123_456_000, time.UTC)
	return o
}

func unknownOverrides(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	unknown := f.of("unknown", 2_000)
	empty := func() {
		t.Helper()
		_, err := f.Overrides.Override(f.Context(), f.set, unknown.ID())
		if !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("an unknown override: error %v, want ErrNotFound", err)
		}
		revisions, err := f.Overrides.OverrideRevisions(f.Context(), []string{f.set})
		if err != nil || len(revisions) != 0 {
			t.Errorf("the revisions are %v (%v)", revisions, err)
		}
		page, err := f.Overrides.OverrideChanges(f.Context(), f.set, 0, 0)
		if err != nil || len(page.Overrides) != 0 || page.Revision != 0 || len(f.listed()) != 0 {
			t.Errorf("the changes are %+v (%v), and the list has %d", page, err, len(f.listed()))
		}
	}
	empty()
	if revision := f.put(deletion(unknown)); revision != 0 {
		t.Errorf("the deletion of an unknown override has revision %d", revision)
	}
	empty()
	known := f.of("known", 2_000)
	f.put(known)
	revision := f.put(deletion(known))
	if again := f.put(deletion(known)); again != revision {
		t.Errorf("a second deletion has revision %d, want %d as the first", again, revision)
	}
}

func overrideRevisions(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	ids, want, first := []string{"", "not a valid id", f.set}, map[string]int64{}, f.set
	for i := range 20 {
		f.set = fmt.Sprintf("%s-%d", first, i)
		ids = append(ids, f.set)
		for range i%3 + 1 {
			want[f.set] = f.put(f.of("user", 2_000))
		}
	}
	got, err := f.Overrides.OverrideRevisions(f.Context(), ids)
	if err != nil || len(got) != len(want) {
		t.Fatalf("the revisions of %d rule sets are %v (%v), want %v", len(ids), got, err, want)
	}
	for id, revision := range want {
		if got[id] != revision {
			t.Errorf("the revision of %s is %d, want %d", id, got[id], revision)
		}
	}
	if got, err := f.Overrides.OverrideRevisions(f.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("the revisions of no rule set are %v (%v)", got, err)
	}
}

func separateRuleSets(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	one, two := *f, *f
	two.set = f.set + "-2"
	first := one.of("same", 2_000)
	one.put(first)
	revision := one.revision()
	second := two.of("same", 3_000)
	two.put(second, two.of("more", 4_000))
	two.put(deletion(two.of("more", 0)))
	if got := one.get(first.ID()); got.Times != 2_000 || got.RuleSetID != one.set {
		t.Errorf("the override of %s is %s", one.set, text(got))
	}
	if got := two.get(second.ID()); got.Times != 3_000 || got.RuleSetID != two.set {
		t.Errorf("the override of %s is %s", two.set, text(got))
	}
	if one.revision() != revision || len(one.listed()) != 1 {
		t.Errorf("one change of %s has made revision %d and %d overrides", one.set, one.revision(), len(one.listed()))
	}
	one.wantState(one.follower(0))
	two.wantState(two.follower(0))
	two.put(deletion(second))
	if len(one.listed()) != 1 || len(two.listed()) != 0 {
		t.Errorf("after a deletion in %s it has %d overrides, and %s has %d", two.set, len(two.listed()), one.set, len(one.listed()))
	}
}

func overrideIdentities(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	var all []rules.Override
	for _, value := range []string{
		"plain", " leading", "trailing ", "a b", "a:b", "a|b", "a,b", "a;b", "a/b", "{a}", "[a]", `"a"`, "'a'", `a\b`, "a\nb", "a\tb", "a\x00b", "a\x1fb",
		"<a>&", "%61", "*", "?", "Plain", "é", "e\u0301", "ﬁ", "fi", "\u202eabc", "\U0001f600", "1", "1.0", "null", "true", "sha256:a",
		strings.Repeat("x", 1<<10), strings.Repeat("x", 1<<10-1), strings.Repeat("\x01", 1<<10), strings.Repeat("é", 1<<9),
	} {
		o := f.of(value, rules.Times(1_000+len(all)))
		all = append(all, o)
		composite := o
		composite.Identity = map[string]string{"attr:" + value[:min(len(value), 1)] + "x": value, "header:x": "y"}
		if value[0] < 0x80 {
			all = append(all, composite)
		}
	}
	for _, pair := range [][2]string{{"a", "bc"}, {"ab", "c"}, {"a:b", "c"}, {"a", "b:c"}, {"", ""}} {
		o := f.of("", rules.Times(1_000+len(all)))
		o.Identity = map[string]string{}
		if pair[0] != "" {
			o.Identity = map[string]string{"attr:a": pair[0], "attr:b": pair[1]}
		}
		all = append(all, o)
	}
	f.put(all...)
	listed := f.listed()
	if len(listed) != len(all) {
		t.Errorf("%d overrides of different identities were put, and the list has %d", len(all), len(listed))
	}
	for _, o := range all {
		got := f.get(o.ID())
		want := o
		want.Revision, want.At = got.Revision, got.At
		if text(got) != text(want) || listed[o.ID()] != text(want) {
			t.Errorf("%s was put, %s is read and %s listed", text(want), text(got), listed[o.ID()])
		}
	}
	f.wantState(f.follower(7))
}

func overrideSecret(part string) func(testing.TB, Subject) {
	return func(t testing.TB, s Subject) { keepsDigest(t, s, part) }
}

func keepsDigest(t testing.TB, s Subject, part string) {
	f := newOverriding(t, s)
	const key = "a-plain-secret-that-must-not-be-kept"
	o := f.of("", 2_000)
	o.Identity = map[string]string{part: key}
	digested := o
	digested.Identity = map[string]string{part: rules.DigestAPIKey(key)}
	f.put(o)
	shown := text(f.get(digested.ID()))
	for _, listed := range f.listed() {
		shown += listed
	}
	r := f.follower(0)
	f.wantState(r)
	shown += r.state[digested.ID()]
	first := f.revision()
	second := f.put(based(digested, first))
	_, err := f.Overrides.PutOverrides(f.Context(), f.set, []rules.Override{based(o, first)})
	f.wantConflict(err, digested.ID(), first, second)
	f.put(deletion(o))
	if len(f.listed()) != 0 {
		t.Error("an override was not deleted by its secret")
	}
	page, err := f.Overrides.OverrideChanges(f.Context(), f.set, 0, 0)
	if err != nil || len(page.Overrides) != 1 {
		t.Fatalf("the changes are %+v (%v)", page, err)
	}
	shown += text(page.Overrides[0])
	if f.Stored != nil {
		stored := f.Stored(t)
		if !strings.Contains(stored, rules.DigestAPIKey(key)) {
			t.Error("the digest of the secret is not stored: Stored does not return everything")
		}
		shown += stored
	}
	if strings.Contains(shown, key) {
		t.Error("the secret is kept")
	}
}

func overrideContext(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	o := f.of("user", 2_000)
	f.put(o)
	ended, cancel := context.WithCancel(f.Context())
	cancel()
	_, put := f.Overrides.PutOverrides(ended, f.set, []rules.Override{f.of("user", 3_000)})
	_, get := f.Overrides.Override(ended, f.set, o.ID())
	_, list := f.Overrides.ListOverrides(ended, f.set, "", 0)
	_, changes := f.Overrides.OverrideChanges(ended, f.set, 0, 0)
	_, revisions := f.Overrides.OverrideRevisions(ended, []string{f.set})
	for call, err := range map[string]error{
		"PutOverrides": put, "Override": get, "ListOverrides": list, "OverrideChanges": changes, "OverrideRevisions": revisions,
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that has ended: %v", call, err)
		}
	}
	if got := f.get(o.ID()); got.Times != 2_000 {
		t.Error("PutOverrides writes though its context has ended")
	}
}

func overrideSeen(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	other := *f
	other.Overrides = f.other()
	o := f.of("user", 0)
	for i := range rules.Times(10) {
		o.Times = 1_000 + i
		revision := f.put(o)
		if got := other.get(o.ID()); got.Times != o.Times || got.Revision != revision || other.revision() != revision {
			t.Fatalf("another editor returns %s at revision %d of %d", text(got), got.Revision, other.revision())
		}
		if text(other.get(o.ID())) != other.listed()[o.ID()] {
			t.Fatal("another editor lists something else")
		}
		f, other = &other, *f
	}
}
