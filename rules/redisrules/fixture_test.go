package redisrules

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Suite{M: m}) }

// patience is longer than any operation, even on a busy machine.
const patience = 20 * time.Second

// dial returns a client that is closed with the test.
func dial(t testing.TB, options *redis.UniversalOptions) redis.UniversalClient {
	t.Helper()
	options.ContextTimeoutEnabled = true
	client := redis.NewUniversalClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func toServer(t testing.TB, srv *testenv.Server) *redis.UniversalOptions {
	t.Helper()
	o, err := redis.ParseURL(srv.URI())
	if err != nil {
		t.Fatal(err)
	}
	return &redis.UniversalOptions{Addrs: []string{o.Addr}, Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig}
}

func toCluster(c *testenv.Cluster) *redis.UniversalOptions {
	return &redis.UniversalOptions{Addrs: c.Addrs(), IsClusterMode: true, Username: c.Username(), Password: c.Password()}
}

func toSentinel(s *testenv.Sentinel) *redis.UniversalOptions {
	return &redis.UniversalOptions{Addrs: s.Addrs(), MasterName: s.MasterName()}
}

// newSource returns a source with its own keys, unless config names them.
func newSource(t testing.TB, client redis.UniversalClient, config Config) *Source {
	t.Helper()
	if config.Prefix == "" {
		config.Prefix = "test-" + rand.Text()
	}
	if config.Timeout == 0 {
		config.Timeout = patience
	}
	s, err := New(client, config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ruleSet returns a rule set with a rule for each id.
func ruleSet(t testing.TB, id string, ruleIDs ...string) *rules.Set {
	t.Helper()
	var list []rules.Rule
	for _, rule := range ruleIDs {
		list = append(list, rules.Rule{
			ID: rule, Paths: []string{"/" + rule + "/**"}, Scope: rules.ScopeIP,
			Bands: []rules.Band{{Label: "per-minute", Capacity: 100, Refill: time.Minute}},
		})
	}
	set, err := rules.NewSet(id, list...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// by returns a change by alice.
func by(base int64, comment string) rules.Change {
	return rules.Change{Base: base, Author: "alice", Comment: comment}
}

// mustPut puts and expects the revision after base.
func mustPut(t testing.TB, s *Source, set *rules.Set, base int64) int64 {
	t.Helper()
	revision, err := s.Put(t.Context(), set, by(base, ""))
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func document(t testing.TB, set *rules.Set) string {
	t.Helper()
	data, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// do runs a command on the server with all permissions.
func do(t testing.TB, srv *testenv.Server, args ...any) any {
	t.Helper()
	answer, err := srv.Do(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// until waits for a condition.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v for: %s", patience, what)
		}
	}
}

// calls returns how often the server has run a command, and for how long.
func calls(t testing.TB, srv *testenv.Server, command string) (count int, took time.Duration) {
	t.Helper()
	stats, err := srv.Info(t.Context(), "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	line, ok := stats["cmdstat_"+command]
	if !ok {
		return 0, 0
	}
	var usec int64
	if _, err := fmt.Sscanf(line, "calls=%d,usec=%d", &count, &usec); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return count, time.Duration(usec) * time.Microsecond
}

// scripts returns how often the server has run scripts.
func scripts(t testing.TB, srv *testenv.Server) int {
	t.Helper()
	bySHA, _ := calls(t, srv, "evalsha")
	whole, _ := calls(t, srv, "eval")
	return bySHA + whole
}

// everything calls every operation of a source, with its own ids.
func everything(ctx context.Context, t testing.TB, s *Source) error {
	t.Helper()
	id := "set-" + strings.ToLower(rand.Text())
	one, two := ruleSet(t, id, id+"-a", id+"-b"), ruleSet(t, id, id+"-b", id+"-c")
	first, err := s.Put(ctx, one, by(0, "one"))
	if err != nil {
		return err
	}
	second, err := s.Put(ctx, two, by(first, "two"))
	if err != nil {
		return err
	}
	if v, err := s.Load(ctx, id); err != nil {
		return err
	} else if v.Revision != second || document(t, v.RuleSet) != document(t, two) {
		return fmt.Errorf("loaded revision %d", v.Revision)
	}
	if v, err := s.Version(ctx, id, first); err != nil {
		return err
	} else if document(t, v.RuleSet) != document(t, one) {
		return errors.New("another version than was put")
	}
	third, err := s.Delete(ctx, id, by(second, "gone"))
	if err != nil {
		return err
	}
	if _, err := rulestest.Restore(ctx, s, id, second, by(0, "")); err != nil {
		return err
	}
	heads, err := s.Revisions(ctx, []string{id, "unknown"})
	if err != nil {
		return err
	}
	if len(heads) != 1 || heads[id].Current() != third+1 || heads[id].Commit == "" {
		return fmt.Errorf("the heads are %v", heads)
	}
	if list, err := s.List(ctx, "", 10); err != nil {
		return err
	} else if len(list) == 0 {
		return errors.New("the list is empty")
	}
	if history, err := s.History(ctx, id, 0, 10); err != nil {
		return err
	} else if len(history) != min(4, s.config.History) {
		return fmt.Errorf("the history has %d entries", len(history))
	}
	return everyOverride(ctx, s, id)
}
