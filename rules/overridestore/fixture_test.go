package overridestore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/overridestore"
	"github.com/fluxgate/fluxgate/rules/redisrules"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Suite{M: m}) }

// fleet is servers that share overrides.
type fleet struct {
	testing.TB
	rules  *memrules.Source
	shared rules.SharedOverrides
	// lose deletes everything that is shared. With buckets they stay.
	lose func()
}

// kinds are the places that servers can share, each with its own data.
var kinds = map[string]func(t testing.TB) *fleet{
	"memory": func(t testing.TB) *fleet {
		m := &swapped{}
		m.swap()
		return &fleet{TB: t, rules: memrules.New(memrules.Config{}), shared: m, lose: m.swap}
	},
	"redis": func(t testing.TB) *fleet {
		client := dial(t, testenv.SharedStandalone(t))
		prefix := "test-" + rand.Text()
		return &fleet{TB: t, rules: memrules.New(memrules.Config{}), shared: inRedis(t, client, prefix), lose: func() { flush(t, client, prefix) }}
	},
}

func dial(t testing.TB, server *testenv.Server) redis.UniversalClient {
	t.Helper()
	client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{server.Addr()}, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func inRedis(t testing.TB, client redis.UniversalClient, prefix string) *redisrules.Overrides {
	t.Helper()
	return fluxgate.Must(redisrules.NewOverrides(client, redisrules.Config{Prefix: prefix, Timeout: 20 * time.Second}))
}

// flush deletes the keys of a prefix.
func flush(t testing.TB, client redis.UniversalClient, prefix string) {
	t.Helper()
	keys, err := client.Keys(context.Background(), prefix+":*").Result()
	if err == nil && len(keys) > 0 {
		err = client.Del(context.Background(), keys...).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// swapped is overrides in memory that can be lost.
type swapped struct {
	now atomic.Pointer[overridestore.Memory]
}

func (s *swapped) swap() { s.now.Store(&overridestore.Memory{}) }

func (s *swapped) OverrideRevisions(ctx context.Context, ids []string) (map[string]int64, error) {
	return s.now.Load().OverrideRevisions(ctx, ids)
}

func (s *swapped) OverrideChanges(ctx context.Context, set string, after int64, limit int) (rules.OverridePage, error) {
	return s.now.Load().OverrideChanges(ctx, set, after, limit)
}

func (s *swapped) Override(ctx context.Context, set, id string) (rules.Override, error) {
	return s.now.Load().Override(ctx, set, id)
}

func (s *swapped) ListOverrides(ctx context.Context, set, after string, limit int) (rules.OverridePage, error) {
	return s.now.Load().ListOverrides(ctx, set, after, limit)
}

func (s *swapped) OverrideState(ctx context.Context, waiting rules.WaitingRules) (rules.OverrideState, error) {
	return s.now.Load().OverrideState(ctx, waiting)
}

func (s *swapped) PutSharedOverrides(ctx context.Context, record, next rules.OverrideRecord, set string, changes []rules.Override) (int64, error) {
	return s.now.Load().PutSharedOverrides(ctx, record, next, set, changes)
}

func (s *swapped) BeginRestore(ctx context.Context, record rules.OverrideRecord) (rules.OverrideRecord, error) {
	return s.now.Load().BeginRestore(ctx, record)
}

func (s *swapped) RestoreOverrides(ctx context.Context, record rules.OverrideRecord, part *rules.OverrideCopy) error {
	return s.now.Load().RestoreOverrides(ctx, record, part)
}

// server is a store with a folder of its own. It compares only when a test calls Sync.
type server struct {
	testing.TB
	*overridestore.Store
	folder string
	logged *strings.Builder
	shared rules.SharedOverrides
	rules  rules.Source
}

func (f *fleet) server() *server { return f.at(f.TempDir()) }

func (f *fleet) at(folder string) *server {
	f.Helper()
	s := &server{TB: f.TB, folder: folder, logged: &strings.Builder{}, shared: f.shared, rules: f.rules}
	s.open()
	f.Cleanup(func() { _ = s.Close() })
	return s
}

func (s *server) open() {
	s.Helper()
	s.Store = fluxgate.Must(overridestore.Open(context.Background(), overridestore.Config{
		Rules: s.rules, Shared: s.shared, Folder: s.folder, Interval: time.Hour, FirstWait: 20 * time.Second,
		Logger: slog.New(slog.NewTextHandler(s.logged, nil)),
	}))
}

// restart closes the store and opens it again.
func (s *server) restart() {
	s.Helper()
	_ = s.Close()
	s.open()
}

func (s *server) sync() {
	s.Helper()
	if err := s.Sync(s.Context()); err != nil {
		s.Fatal(err)
	}
}

const set, rule = "api", "standard"

func of(user string, times rules.Times) rules.Override {
	return rules.Override{
		RuleSetID: set, RuleID: rule, Identity: map[string]string{"userId": user}, Times: times, Deleted: times == 0, Author: "test",
	}
}

func (s *server) put(changes ...rules.Override) {
	s.Helper()
	for _, o := range changes {
		if _, err := s.PutOverrides(s.Context(), o.RuleSetID, []rules.Override{o}); err != nil {
			s.Fatal(err)
		}
	}
}

// has are the factors of all users.
func (s *server) has() string {
	s.Helper()
	page, err := s.ListOverrides(s.Context(), set, "", 0)
	if err != nil {
		s.Fatal(err)
	}
	found := map[string]string{}
	for _, o := range page.Overrides {
		found[o.Identity["userId"]] = o.Times.String()
	}
	var all []string
	for _, user := range []string{"ada", "bob", "eve", "max", "zoe"} {
		if times := found[user]; times != "" {
			all = append(all, user+" "+times)
			delete(found, user)
		}
	}
	if len(found) > 0 {
		s.Errorf("others: %v", found)
	}
	return strings.Join(all, ", ")
}

func (s *server) want(what, want string) {
	s.Helper()
	if got := s.has(); got != want {
		s.Errorf("%s there are the overrides %q, want %q", what, got, want)
	}
}

// wantProblem checks that exactly one problem is named, or none if it is empty.
func (s *server) wantProblem(want string) {
	s.Helper()
	all := s.Problems()
	if want == "" && len(all) > 0 || want != "" && (len(all) != 1 || !strings.Contains(all[0], want)) {
		s.Errorf("the problems are %q, want %q", all, want)
	}
}

func (f *fleet) putRules(base int64, ids ...string) {
	f.Helper()
	var list []rules.Rule
	for _, id := range ids {
		list = append(list, rules.Rule{ID: id, Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerHour(10)}})
	}
	if _, err := f.rules.Put(f.Context(), fluxgate.Must(rules.NewSet(set, list...)), rules.Change{Base: base, Author: "test"}); err != nil {
		f.Fatal(err)
	}
}

func copyFile(t testing.TB, folder string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, set+".overrides.jsonl"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}
