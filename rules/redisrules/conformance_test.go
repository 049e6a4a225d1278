package redisrules

import (
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest"
	"github.com/redis/go-redis/v9"
)

// conformance runs the suite. Each check has its own keys and two clients. The
// subject has the other settings.
func conformance(t *testing.T, options *redis.UniversalOptions, subject rulestest.Subject) {
	t.Helper()
	one, other := dial(t, options), dial(t, options)
	open := func(t testing.TB) rulestest.Subject {
		s := newSource(t, one, Config{History: subject.History, HistoryBytes: subject.HistoryBytes})
		subject := subject
		subject.Editor = s
		subject.Open = func(t testing.TB) rules.Editor { return newSource(t, other, s.config) }
		subject.Corrupt = func(t testing.TB, id, document string) {
			heads, err := s.Revisions(t.Context(), []string{id})
			if err == nil {
				err = one.HSet(t.Context(), s.key("documents:"+id), heads[id].Revision, document).Err()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return subject
	}
	for _, check := range rulestest.Checks() {
		// The longest documents take seconds; testing them on one server is
		// enough.
		if subject.Changes == 0 || !strings.Contains(check.Name, "as long as a document may be") {
			t.Run(check.Name, func(t *testing.T) { check.Run(t, open(t)) })
		}
	}
}

// The suite passes on one server with all writers and changes.
func TestConformance_Standalone(t *testing.T) {
	conformance(t, toServer(t, testenv.SharedStandalone(t)), rulestest.Subject{})
}

// The suite passes with a short history.
func TestConformance_ShortHistory(t *testing.T) {
	conformance(t, toServer(t, testenv.SharedStandalone(t)), rulestest.Subject{History: 20, HistoryBytes: 256 << 10, Writers: 10, Changes: 60})
}

// The suite passes behind Sentinel.
func TestConformance_Sentinel(t *testing.T) {
	conformance(t, toSentinel(testenv.SharedSentinel(t)), rulestest.Subject{Writers: 10, Changes: 60})
}

// The suite passes in a cluster.
func TestConformance_Cluster(t *testing.T) {
	conformance(t, toCluster(testenv.SharedCluster(t)), rulestest.Subject{Writers: 10, Changes: 60})
}
