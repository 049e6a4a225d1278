package admin_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/adminapi"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// word is the token of the writer.
const word = "open-sesame-4f9a8b7c"

// desk is a server's admin API over rules and buckets in memory, with its operator
// and a client.
type desk struct {
	*httptest.Server
	rules  *memrules.Source
	engine *fluxgate.Engine
	direct *admin.Direct
	client *admin.Client
}

// newDesk uses the given source instead of memory.
func newDesk(t testing.TB, source ...rules.Editor) *desk {
	t.Helper()
	d := &desk{rules: memrules.New(memrules.Config{})}
	var editor rules.Editor = d.rules
	if len(source) > 0 {
		editor = source[0]
	}
	store, err := memstore.New(memstore.Config{})
	do(t, err)
	overrides := fluxgate.NewOverrides(store, 0)
	loaded, err := reload.Start(t.Context(), editor, reload.Config{Strategy: reload.Polling, FirstWait: time.Minute, Overrides: overrides})
	do(t, err)
	t.Cleanup(func() { do(t, loaded.Close()) })
	d.engine, err = fluxgate.New(store, loaded, fluxgate.WithOverrides(overrides))
	do(t, err)
	d.direct = admin.NewDirect(editor, func() *fluxgate.Engine { return d.engine }, "")

	sum := sha256.Sum256([]byte(word))
	var server config.Server
	server.Auth.Tokens = []config.Token{{Name: "writer", SHA256: config.Hash(hex.EncodeToString(sum[:])), Roles: []config.Role{config.RoleWrite}}}
	guard, err := access.New(&server, nil)
	do(t, err)
	log, err := audit.New("", slog.New(slog.DiscardHandler))
	do(t, err)
	api, err := adminapi.New(adminapi.Config{
		Operator: d.direct, Guard: guard, Audit: log, Rate: 1_000_000, Changed: func(q *http.Request, _ string) { _ = loaded.Reload(q.Context()) },
	})
	do(t, err)
	d.Server = httptest.NewServer(api)
	t.Cleanup(d.Close)
	d.client = clientOf(t, d.URL)
	return d
}

// clientOf returns a client with the token.
func clientOf(t testing.TB, address string) *admin.Client {
	t.Helper()
	c, err := admin.NewClient(address, admin.ClientConfig{Token: admin.Secret(word)})
	do(t, err)
	t.Cleanup(func() { do(t, c.Close()) })
	return c
}

// clientTo returns a client of a server with this handler.
func clientTo(t testing.TB, handler http.HandlerFunc) *admin.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return clientOf(t, server.URL)
}

func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// setOf returns a rule set with a rule for each capacity.
func setOf(t testing.TB, id string, capacities ...int64) *rules.Set {
	t.Helper()
	all := make([]rules.Rule, len(capacities))
	for i, capacity := range capacities {
		all[i] = rules.Rule{ID: fmt.Sprintf("%s-%d", id, i), Scope: rules.ScopeUser, Bands: []rules.Band{{Label: "day", Capacity: capacity, Refill: 24 * time.Hour}}}
	}
	set, err := rules.NewSet(id, all...)
	do(t, err)
	return set
}

// capacities returns the capacities of the rules of a rule set.
func capacities(set *rules.Set) string {
	if set == nil {
		return "none"
	}
	all := []int64{}
	for r := range set.Rules() {
		all = append(all, r.Bands[0].Capacity)
	}
	return fmt.Sprint(all)
}

// by returns a change.
func by(base int64, comment string) rules.Change {
	return rules.Change{Base: base, Author: "somebody", Comment: comment}
}

func text(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	do(t, err)
	return string(raw)
}
