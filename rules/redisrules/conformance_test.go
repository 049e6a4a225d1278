package redisrules

import (
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest"
	"github.com/redis/go-redis/v9"
)

const (
	longestDocuments  = "as long as a document may be"
	concurrentWriters = "concurrent writers lose no change"
)

// conformance runs the checks that are wanted. Each has its own keys and two clients.
// The subject has the other settings.
func conformance(t *testing.T, options *redis.UniversalOptions, subject rulestest.Subject, wanted func(check string) bool) {
	t.Helper()
	one, other := dial(t, options), dial(t, options)
	open := func(t testing.TB) rulestest.Subject {
		s := newSource(t, one, Config{History: subject.History, HistoryBytes: subject.HistoryBytes})
		subject := subject
		subject.Editor = s
		subject.Open = func(t testing.TB) rules.Editor { return newSource(t, other, s.config) }
		subject.Lose = s.lose
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
		if wanted(check.Name) {
			t.Run(check.Name, func(t *testing.T) { check.Run(t, open(t)) })
		}
	}
}

// lose deletes every key of a source.
func (s *Source) lose(t testing.TB, id string) {
	t.Helper()
	for _, name := range []string{
		"heads", "names", "current", "bytes", "history:" + id, "documents:" + id, "changes:" + id,
		"override-revisions", "override-forgotten", "overrides:" + id, "override-changes:" + id, "override-deleted:" + id,
		"override-list:" + id, "override-tokens:" + id,
	} {
		if err := s.client.Del(t.Context(), s.key(name)).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func all(string) bool { return true }

// short leaves out the longest documents, which take seconds: one server is enough.
func short(check string) bool { return !strings.Contains(check, longestDocuments) }

// The suite passes on one server.
func TestConformance_Standalone(t *testing.T) {
	conformance(t, toServer(t, testenv.SharedStandalone(t)), rulestest.Subject{Writers: 10, Changes: 60}, all)
}

// Fifty writers make a thousand changes.
func TestConformance_FiftyWriters_NoRace(t *testing.T) {
	ran := false
	conformance(t, toServer(t, testenv.SharedStandalone(t)), rulestest.Subject{}, func(check string) bool {
		found := strings.HasPrefix(check, concurrentWriters)
		ran = ran || found
		return found
	})
	if !ran {
		t.Errorf("no check is named %q", concurrentWriters)
	}
}

// The suite passes with a short history.
func TestConformance_ShortHistory(t *testing.T) {
	conformance(t, toServer(t, testenv.SharedStandalone(t)), rulestest.Subject{History: 20, HistoryBytes: 256 << 10, Writers: 10, Changes: 60}, short)
}

// The suite passes behind Sentinel.
func TestConformance_Sentinel(t *testing.T) {
	conformance(t, toSentinel(testenv.SharedSentinel(t)), rulestest.Subject{Writers: 10, Changes: 60}, short)
}

// The suite passes in a cluster.
func TestConformance_Cluster(t *testing.T) {
	conformance(t, toCluster(testenv.SharedCluster(t)), rulestest.Subject{Writers: 10, Changes: 60}, short)
}
