package redisstore

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// Every gateway reads the reports of all, until they end.
func TestReports(t *testing.T) {
	for name, uri := range map[string]func(testing.TB) string{
		"standalone": func(t testing.TB) string { return testenv.SharedStandalone(t).URI() },
		"cluster":    func(t testing.TB) string { return testenv.SharedCluster(t).URI() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			// On a busy machine a gateway misses heartbeats and is not listed for a moment.
			config, address := Config{Prefix: "report-" + rand.Text(), Refresh: 10 * beating}, uri(t)
			a, b := openStore(t, address, config), openStore(t, address, config)
			countsEventually(t, 2, a, b)
			must(t, a.WriteReport(t.Context(), []byte("of a"), time.Minute))
			must(t, b.WriteReport(t.Context(), []byte("of b"), time.Minute))
			testenv.Eventually(t, "both reports", func() bool {
				got, err := a.Reports(t.Context(), 4)
				must(t, err)
				return string(got[a.ID()]) == "of a" && string(got[b.ID()]) == "of b" && len(got) == 2
			})
			if got, err := b.Reports(t.Context(), 3); err != nil || len(got) != 0 {
				t.Errorf("larger than allowed: %q, %v", got, err)
			}
			must(t, b.WriteReport(t.Context(), []byte("of b"), 100*time.Millisecond))
			testenv.Eventually(t, "the report of one has ended", func() bool {
				got, err := a.Reports(t.Context(), 4)
				return err == nil && len(got) == 1 && got[a.ID()] != nil
			})
		})
	}
}

// What others write under the prefix does not break the reports.
func TestReports_Untrusted(t *testing.T) {
	server := testenv.SharedStandalone(t)
	prefix := "report-" + rand.Text()
	s := openStore(t, server.URI(), Config{Prefix: prefix, Refresh: 10 * beating})
	countsEventually(t, 1, s)
	must(t, s.WriteReport(t.Context(), []byte("own"), time.Minute))
	ends := time.Now().Add(50 * time.Minute).UnixMilli()
	for _, id := range []string{"not an id", strings.Repeat("0", 16), strings.Repeat("1", 16)} {
		if _, err := server.Do(t.Context(), "HSET", prefix+":gateways", id, ends); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range [][]any{
		{"SET", s.names.report("not an id"), "x"}, {"HSET", s.names.report(strings.Repeat("0", 16)), "a", "b"},
		{"SET", s.names.report(strings.Repeat("1", 16)), strings.Repeat("x", 1<<20)},
	} {
		if _, err := server.Do(t.Context(), command...); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.Reports(t.Context(), 1_000); err != nil || len(got) != 1 || string(got[s.ID()]) != "own" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := server.Do(t.Context(), "DEL", prefix+":gateways"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reports(t.Context(), 1_000); err != nil {
		t.Errorf("without a record: %v", err)
	}
}

// The reports of 200 servers every two seconds, and a reader that looks as often, use less
// than 1 % of the time of Redis.
func TestReports_Cost(t *testing.T) {
	testenv.SkipShort(t)
	const servers, rounds, interval, size = 200, 15, 2 * time.Second, 16 << 10
	server := testenv.StartStandalone(t, testenv.Config{})
	s := openStore(t, server.URI(), Config{Refresh: 5 * time.Minute, Timeout: time.Second})
	testenv.Eventually(t, "the first heartbeat, which no other follows", func() bool { return s.heartbeat.count.Load() == 1 })
	ids := make([]string, servers)
	for i := range ids {
		ids[i] = fmt.Sprintf("%016x", i)
		s.heartbeat.id, s.heartbeat.skip = ids[i], 0
		s.heartbeat.send(t.Context())
	}
	if _, err := server.Do(t.Context(), "CONFIG", "RESETSTAT"); err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		for _, id := range ids {
			s.heartbeat.id = id
			must(t, s.WriteReport(t.Context(), bytes.Repeat([]byte{byte(round)}, size), 3*interval))
		}
		if got, err := s.Reports(t.Context(), size); err != nil || len(got) < servers {
			t.Fatalf("%d reports, %v", len(got), err)
		}
	}
	info, err := server.Info(t.Context(), "commandstats")
	must(t, err)
	used := 0.0
	for _, command := range []string{"eval", "psetex", "getrange"} { // eval includes the commands of the script
		_, text, _ := strings.Cut(info["cmdstat_"+command], "usec=")
		text, _, _ = strings.Cut(text, ",")
		micros, err := strconv.ParseFloat(text, 64)
		must(t, err)
		used += micros
	}
	share := used / float64(rounds*interval.Microseconds())
	t.Logf("%.2f %% of the time of Redis", 100*share)
	if share > 0.01 {
		t.Errorf("%.2f %% of the time of Redis, want at most 1 %%", 100*share)
	}
}
