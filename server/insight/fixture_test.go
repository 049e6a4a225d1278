package insight_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// everything is the view of an operator who may see all.
var everything = insight.View{All: true, RuleSet: func(string) bool { return true }, Identities: func(string) bool { return true }}

// node is one server: an engine and its insight.
type node struct {
	*insight.Insight
	engine   *fluxgate.Engine
	recorder *insight.Recorder
}

// start runs a server in memory with rules, until the test ends.
func start(t testing.TB, buckets store.Store, config insight.Config, sets []*rules.Set, options ...fluxgate.Option) *node {
	t.Helper()
	n := new(node)
	ruleSet := sets[0].ID()
	n.recorder = insight.NewRecorder(insight.RecorderConfig{Engine: func() *fluxgate.Engine { return n.engine }, RuleSet: ruleSet})
	n.Insight = insight.New(n.recorder, config)
	var err error
	options = append([]fluxgate.Option{fluxgate.WithRuleSet(ruleSet), fluxgate.WithObserver(telemetry.New(telemetry.Config{RuleSet: ruleSet, Recorder: n.recorder}))}, options...)
	n.engine, err = fluxgate.New(buckets, fluxgate.Static(sets...), options...)
	do(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return n
}

func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func memory(t testing.TB) *memstore.Store {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	do(t, err)
	t.Cleanup(func() { do(t, store.Close()) })
	return store
}

func set(t testing.TB, id string, list ...rules.Rule) *rules.Set {
	t.Helper()
	s, err := rules.NewSet(id, list...)
	do(t, err)
	return s
}

// perUser is a rule for every user.
func perUser(id string, capacity int64) rules.Rule {
	return rules.Rule{ID: id, Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerHour(capacity)}}
}

func (n *node) check(t testing.TB, times int, req fluxgate.Request) {
	t.Helper()
	for range times {
		_, err := n.engine.Check(t.Context(), &req)
		do(t, err)
	}
}

func (n *node) live(t testing.TB, q insight.LiveQuery, view insight.View) *admin.Live {
	t.Helper()
	return n.Live(t.Context(), q, view)
}

func (n *node) callers(t testing.TB, q insight.CallersQuery, view insight.View) *admin.Callers {
	t.Helper()
	return n.Callers(t.Context(), q, view)
}

// reports are those of a fleet in memory.
type reports struct {
	mu   sync.Mutex
	by   map[string][]byte
	fail error
}

// member is the reports as one server writes them.
type member struct {
	*reports
	id string
}

func (r *reports) as(id string) func() (insight.Fleet, error) {
	return func() (insight.Fleet, error) { return member{r, id}, nil }
}

func (m member) ID() string { return m.id }

func (m member) WriteReport(_ context.Context, report []byte, _ time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	if m.by == nil {
		m.by = map[string][]byte{}
	}
	m.by[m.id] = report
	return nil
}

func (member) Leave(context.Context) error { return nil }

func (member) LostReports(context.Context, int) (map[string]redisstore.LostReport, error) {
	return nil, nil
}

func (m member) Reports(context.Context, int) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, m.fail
	}
	return maps.Clone(m.by), nil
}
