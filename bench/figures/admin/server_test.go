package admin_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
)

// served is a server, and a client of its admin API.
type served struct {
	*admin.Client
	url string
}

// serve starts a server with these settings.
func serve(t *testing.T, set ...string) *served {
	t.Helper()
	set = append(set, "server.http=127.0.0.1:0", "server.admin=127.0.0.1:0", "server.drain.delay=0s", "server.admin-rate=1000000")
	c, err := config.Load(config.Sources{Set: set})
	do(t, err)
	app, err := server.New(t.Context(), c, server.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	do(t, err)
	ended := make(chan error, 1)
	go func() { ended <- app.Run(t.Context()) }()
	t.Cleanup(func() { do(t, <-ended) })
	s := &served{url: "http://" + app.Addr("admin")}
	s.Client, err = admin.NewClient(s.url, admin.ClientConfig{Timeout: 5 * time.Minute})
	do(t, err)
	return s
}

// largest is a rule set of as many rules as there may be, of the usual kind. A
// tenth of the rules differs by the variant.
func largest(t *testing.T, variant int64) *rules.Set {
	t.Helper()
	all := make([]rules.Rule, rules.MaxRules)
	for i := range all {
		all[i] = rules.Rule{
			ID: fmt.Sprintf("rule-%d", i), Paths: []string{fmt.Sprintf("/api/v1/service-%d/*/items/**", i)}, Methods: []string{"GET"},
			Scope: rules.ScopeIP, Priority: i % 10,
			Bands: []rules.Band{
				{Label: "per-second", Capacity: 100, Refill: time.Second}, {Label: "per-minute", Capacity: 1000, Refill: time.Minute},
			},
			Attributes: map[string]any{"tenant": "enterprise", "tier": "premium"},
		}
		if i%10 == 0 {
			all[i].Bands[1].Capacity += variant
		}
	}
	set, err := rules.NewSet("largest", all...)
	do(t, err)
	return set
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// get reads an answer to its end, without keeping it.
func (s *served) get(t *testing.T, path string, read func(*http.Response)) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	do(t, err)
	response, err := http.DefaultClient.Do(request)
	do(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s answers %d", path, response.StatusCode)
	}
	read(response)
}
