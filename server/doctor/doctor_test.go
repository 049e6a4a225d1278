package doctor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/doctor"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// world is a Redis with rules and reports of servers.
type world struct {
	redis  *testenv.Server
	client *redis.Client
	source *redisrules.Source
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{redis: testenv.StartStandalone(t, testenv.Config{})}
	w.client = redis.NewClient(&redis.Options{Addr: w.redis.Addr()})
	t.Cleanup(func() { _ = w.client.Close() })
	var err error
	if w.source, err = redisrules.New(w.client, redisrules.Config{}); err != nil {
		t.Fatal(err)
	}
	return w
}

// put makes a revision of a rule set.
func (w *world) put(t *testing.T, id string, capacity, base int64) {
	t.Helper()
	set, err := rules.NewSet(id, rules.Rule{ID: "r", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerMinute(capacity)}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.source.Put(t.Context(), set, rules.Change{Author: "ann", Base: base}); err != nil {
		t.Fatal(err)
	}
}

// server adds a server that reports.
func (w *world) server(t *testing.T, report string) {
	t.Helper()
	store, err := redisstore.Open(t.Context(), w.redis.URI(), redisstore.Config{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.WriteReport(t.Context(), []byte(report), time.Minute); err != nil {
		t.Fatal(err)
	}
}

func (w *world) diagnose(t *testing.T, settings ...string) string {
	t.Helper()
	c, err := config.Load(config.Sources{Set: append([]string{"redis.uri=" + w.redis.URI(), "redis.expected-servers=1"}, settings...)})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range doctor.Diagnose(t.Context(), c) {
		fmt.Fprintf(&text, "%s %s: %s\n", f.Severity, f.Part, f.Says)
	}
	return text.String()
}

// Rule sets after the first thousand are checked too.
func TestDiagnose_ManyRuleSets(t *testing.T) {
	testenv.SkipShort(t)
	w := newWorld(t)
	w.put(t, "api-limits", 5, 0)
	const sets = 1_100
	if _, err := w.client.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for i := range sets {
			id := fmt.Sprintf("t%04d", i)
			line := "1 put 1767225600000000 AAAA\nann\n"
			p.HSet(t.Context(), "fluxgate:{rules}:heads", id, "1")
			p.ZAdd(t.Context(), "fluxgate:{rules}:names", redis.Z{Member: id})
			p.HSet(t.Context(), "fluxgate:{rules}:history:"+id, "1", line)
			p.HSet(t.Context(), "fluxgate:{rules}:current", id, line)
			document := fmt.Sprintf(`{"id":%q,"rules":[]}`, id)
			if i == sets-1 {
				document = fmt.Sprintf(`{"id":%q,"rules":[{"id":"x"}]}`, id) // without a band
			}
			p.HSet(t.Context(), "fluxgate:{rules}:documents:"+id, "1", document)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	says := w.diagnose(t)
	if !strings.Contains(says, `wrong rules: rule set "t1099"`) || !strings.Contains(says, "ok rules: 1101 rule sets were checked") {
		t.Error(says)
	}
}

// Rule sets with rules that cannot work as they are written are named.
func TestDiagnose_RuleWarnings(t *testing.T) {
	w := newWorld(t)
	w.put(t, "api-limits", 5, 0)
	set, err := rules.NewSet("other", rules.Rule{ID: "a", Methods: []string{"GETT"}, Action: rules.ActionDeny})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.source.Put(t.Context(), set, rules.Change{Author: "ann"}); err != nil {
		t.Fatal(err)
	}
	says := w.diagnose(t)
	if want := `watch rule warnings: rule set "other" has 1 warnings: rule "a" has the HTTP method "GETT"`; strings.Count(says, "rule warnings") != 1 || !strings.Contains(says, want) {
		t.Error(says)
	}
}

// Servers at another revision than the source are named: at once if the change is old, and as
// something to look at again if it is recent.
func TestDiagnose_Revisions(t *testing.T) {
	w := newWorld(t)
	w.put(t, "api-limits", 5, 0)
	w.put(t, "api-limits", 6, 1)
	w.put(t, "partners", 5, 0)
	w.put(t, "partners", 6, 1)
	w.server(t, `{"v":1,"name":"current","revisions":{"api-limits":2,"partners":2}}`)
	w.server(t, `{"v":1,"name":"old","revisions":{"api-limits":1,"partners":1}}`)
	const differ = `servers: rule set %q is at revision 2 in the source, but at 1 on old`
	for severity, interval := range map[string]string{"watch": "1h", "wrong": "1s"} {
		if severity == "wrong" {
			time.Sleep(11 * time.Second) // longer than a poll and a report take
		}
		says := w.diagnose(t, "reload.polling-interval="+interval)
		for _, id := range []string{"api-limits", "partners"} {
			if want := severity + " " + fmt.Sprintf(differ, id); !strings.Contains(says, want) || strings.Contains(says, "on current") {
				t.Errorf("doctor does not say %q:\n%s", want, says)
			}
		}
	}
}

// Several servers need one secret for their receipts.
func TestDiagnose_ReceiptSecret(t *testing.T) {
	w := newWorld(t)
	const unset = "watch receipts: settle.receipt-secret-file is not set"
	w.server(t, `{"v":1,"name":"a"}`)
	if says := w.diagnose(t); strings.Contains(says, "receipts") {
		t.Errorf("doctor speaks of receipts of a single server:\n%s", says)
	}
	w.server(t, `{"v":1,"name":"b"}`)
	if says := w.diagnose(t); !strings.Contains(says, unset) {
		t.Errorf("doctor does not say %q:\n%s", unset, says)
	}
	secret := filepath.Join(t.TempDir(), "receipts.key")
	if err := os.WriteFile(secret, []byte(strings.Repeat("s", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	if says := w.diagnose(t, "settle.receipt-secret-file="+secret); strings.Contains(says, "receipts") {
		t.Errorf("doctor speaks of receipts although all servers have a secret:\n%s", says)
	}
}
