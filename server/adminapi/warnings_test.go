package adminapi_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// The last warnings are listed, newest first, to callers that may read the rule set. Only the
// role identities shows who the callers are.
func TestWarnings(t *testing.T) {
	buckets, err := memstore.New(memstore.Config{})
	do(t, err)
	r := start(t, func(s *settings) {
		s.store = buckets
		s.server.Auth.Tokens = append(s.server.Auth.Tokens, token("auditor", "token of an auditor", nil, config.RoleRead, config.RoleIdentities))
	})
	if got := r.send(t, http.MethodGet, "/v1/warnings", "").want(t, http.StatusOK); got.body != "{\"warnings\":[]}\n" {
		t.Errorf("without a store of warnings: %s", got.body)
	}
	r.op.Recent = buckets.RecentWarnings
	at := time.Date(2026, 11, 18, 20, 0, 0, 0, time.UTC)
	for i, ruleSet := range []string{"mine", "other", "mine"} {
		do(t, buckets.Warn(t.Context(), &store.Warning{
			Key: store.Key{RuleSet: ruleSet, Rule: "budget", ID: store.KeyID{byte(i + 1)}}, Band: "month", Percent: 80, Capacity: 500_000_000, Used: 400_000_000,
			Measure: "usd", Identity: "user ada", At: at.Add(time.Duration(i) * time.Second).UnixMicro(), Ends: at.Add(time.Hour).UnixMicro(),
		}))
	}
	for _, c := range []struct {
		token, query string
		sets         []string
		identity     string
	}{
		{tokenRead, "", []string{"mine", "other", "mine"}, ""},
		{"token of an auditor", "", []string{"mine", "other", "mine"}, "user ada"},
		{tokenOne, "", []string{"mine", "mine"}, ""},
		{tokenOne, "?limit=1", []string{"mine"}, ""},
	} {
		var found admin.Warnings
		r.send(t, http.MethodGet, "/v1/warnings"+c.query, "", "Authorization", "Bearer "+c.token).want(t, http.StatusOK).into(t, &found)
		var sets []string
		for i, w := range found.Warnings {
			sets = append(sets, w.RuleSet)
			key := r.engine.ShowKey(store.Key{RuleSet: w.RuleSet, Rule: "budget", ID: store.KeyID{byte(w.Time.Second() + 1)}})
			if w.Identity != c.identity || w.Text != "$400.00 of $500.00" || w.Key != key || i > 0 && !w.Time.Before(found.Warnings[i-1].Time) {
				t.Errorf("%s sees %+v, want the key %s", c.token, w, key)
			}
		}
		if len(sets) != len(c.sets) || sets[0] != c.sets[0] {
			t.Errorf("%s sees warnings of %q, want %q", c.token, sets, c.sets)
		}
	}
	r.send(t, http.MethodGet, "/v1/warnings", "", "Authorization", "Bearer "+tokenCheck).want(t, http.StatusForbidden)
	r.send(t, http.MethodGet, "/v1/warnings?limit=201", "").want(t, http.StatusUnprocessableEntity)
}
