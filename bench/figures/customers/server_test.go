package customers_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
)

// serve starts a server with rules in Redis, and returns a client of its admin API.
func serve(t *testing.T) *admin.Client {
	t.Helper()
	redis := testenv.StartStandalone(t, testenv.Config{})
	c, err := config.Load(config.Sources{Set: []string{
		"redis.uri=" + redis.URI(), "rules.source=redis", "mongo.enabled=false", "ratelimit.default-rule-set-id=api",
		"server.http=127.0.0.1:0", "server.admin=127.0.0.1:0", "server.drain.delay=0s", "server.admin-rate=1000000",
	}})
	do(t, err)
	app, err := server.New(t.Context(), c, server.Options{Logger: slog.New(slog.DiscardHandler)})
	do(t, err)
	ended := make(chan error, 1)
	go func() { ended <- app.Run(t.Context()) }()
	t.Cleanup(func() { do(t, <-ended) })
	client, err := admin.NewClient("http://"+app.Addr("admin"), admin.ClientConfig{Timeout: 5 * time.Minute})
	do(t, err)
	return client
}

// writing replaces ten thousand overrides of a hundred thousand in one call.
func writing(t *testing.T, report *figure.Report) {
	t.Helper()
	client := serve(t)
	_, err := client.Put(t.Context(), standard(t), rules.Change{})
	do(t, err)
	variant, batch := 0, min(admin.MaxOverrides, customers())
	write := func(first int) float64 {
		start := time.Now()
		_, err := client.PutOverrides(t.Context(), "api", overrides(first, first+batch, variant), false)
		do(t, err)
		return time.Since(start).Seconds()
	}
	for first := 0; first < customers(); first += batch {
		t.Logf("from %d: %.2f s", first, write(first))
	}
	report.AtMost("customers-bulk-10000-s", figure.Median(5, func() float64 {
		variant++
		return write(0)
	}), 10, " s")
}

// rulesInstead measures the largest rule set with a rule for each customer, without a bar:
// docs/customers.md says when to use which.
func rulesInstead(t *testing.T, report *figure.Report) {
	t.Helper()
	own := func(variant int64) *rules.Set {
		all := make([]rules.Rule, figure.Some(rules.MaxRules))
		for i := range all {
			band := plenty
			band.Capacity += variant
			all[i] = rules.Rule{
				ID: fmt.Sprint("of-", i), When: rules.When{Users: []string{customer(i)}}, Scope: rules.ScopeUser, Bands: []rules.Band{band},
			}
			variant = 0 // the first only
		}
		return fluxgate.Must(rules.NewSet("own", all...))
	}
	before := heap()
	set := own(0)
	many := engineFor(t, set, false, false)
	report.Print("customers-rules-10000-memory-mb", float64(heap()-before)/1e6, " MB")
	one := engineFor(t, standard(t), false, false)
	users := make([]string, figure.Some(1_000))
	for i := range users {
		users[i] = customer(i * 10)
	}
	subject, control := decide(t, many, users), decide(t, one, users)
	report.Print("customers-rules-10000-added-ns", addedBy(subject, control), " ns")
	client := serve(t)
	base, err := client.Put(t.Context(), set, rules.Change{})
	do(t, err)
	report.Print("customers-rules-10000-edit-s", figure.Median(5, func() float64 {
		next := own(base)
		start := time.Now()
		base, err = client.Put(t.Context(), next, rules.Change{Base: base})
		do(t, err)
		return time.Since(start).Seconds()
	}), " s")
}
