package fluxgate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// A shown key is read under its own rule and rule set by every engine over the
// same buckets, and under no other.
func TestShowKey_Bound(t *testing.T) {
	set := fluxgate.Must(rules.NewSet("a", rules.Rule{ID: "one", Scope: rules.ScopeUser, Bands: []rules.Band{{Capacity: 5, Refill: time.Hour}}}))
	engineOver := func(salt string) *fluxgate.Engine {
		return fluxgate.Must(fluxgate.New(fluxgate.Must(memstore.New(memstore.Config{Salt: []byte(salt)})), fluxgate.Static(set)))
	}
	engine := engineOver("salt of the fleet")
	buckets, err := engine.Buckets(t.Context(), &fluxgate.Request{RuleSet: "a", UserID: "ann"})
	if err != nil || len(buckets) != 1 {
		t.Fatal(buckets, err)
	}
	key := buckets[0].Key
	shown := engine.ShowKey(key)
	if len(shown) != fluxgate.ShownKeyLength {
		t.Errorf("a shown key has %d digits, want %d", len(shown), fluxgate.ShownKeyLength)
	}
	if got, err := engineOver("salt of the fleet").ParseKey("a", "one", shown); err != nil || got != key {
		t.Errorf("another engine of the fleet reads %v (%v), want %v", got, err, key)
	}
	for name, c := range map[string]struct {
		engine              *fluxgate.Engine
		ruleSet, rule, text string
	}{
		"another rule set":      {engine, "b", "one", shown},
		"another rule":          {engine, "a", "two", shown},
		"a shifted boundary":    {engine, "ao", "ne", shown},
		"another salt":          {engineOver("another salt"), "a", "one", shown},
		"the id alone":          {engine, "a", "one", key.ID.String()},
		"something behind it":   {engine, "a", "one", shown + "00"},
		"nothing":               {engine, "a", "one", ""},
		"no hexadecimal digits": {engine, "a", "one", shown[:len(shown)-1] + "z"},
	} {
		if got, err := c.engine.ParseKey(c.ruleSet, c.rule, c.text); !errors.Is(err, fluxgate.ErrKey) || got != (store.Key{}) {
			t.Errorf("%s: read as %v (%v)", name, got, err)
		}
	}
	if got := engine.ShowKey(store.Key{RuleSet: "a", Rule: "one"}); got != "" {
		t.Errorf("no bucket is shown as %q", got)
	}
}
