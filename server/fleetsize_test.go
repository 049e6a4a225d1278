package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/doctor"
)

// admitted is how many of n requests pass.
func (r *running) admitted(t testing.TB, n int) (allowed int) {
	t.Helper()
	for range n {
		if r.check(t, "ada")["allowed"] == true {
			allowed++
		}
	}
	return allowed
}

// A fleet that starts while Redis is away shares each limit if its size is known, and says
// so if it is not.
func TestFallback_StartWithoutRedis(t *testing.T) {
	const unknown = "number of servers unknown"
	away := "redis.uri=redis://" + testenv.FreeAddr(t)
	settings := []string{away, "redis.mode=standalone", "rules.file=" + rulesFile(t, 100), "reload.strategy=POLLING"}
	write := func(t *testing.T, text string) string {
		copies := t.TempDir()
		if err := os.WriteFile(filepath.Join(copies, "servers.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "rules.copies=" + copies
	}
	for name, test := range map[string]struct {
		setting, disk string
		allowed       int
		servers       string
	}{
		"unknown":                  {"0", "", 100, ""},
		"setting":                  {"4", "", 25, "4"},
		"disk":                     {"0", `{"servers":5,"at":"2026-01-02T03:04:05Z"}`, 20, "5"},
		"disk of before the fleet": {"10", `{"servers":1,"at":"2020-01-02T03:04:05Z"}`, 10, "10"},
		"larger fleet on disk":     {"2", `{"servers":10,"at":"2020-01-02T03:04:05Z"}`, 10, "10"},
		"damaged disk":             {"0", `{"servers":-7`, 100, ""},
		"impossible disk":          {"0", `{"servers":1000000}`, 100, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			r, log := startLogged(t, append([]string{"redis.expected-servers=" + test.setting, write(t, test.disk)}, settings...)...)
			if got := r.admitted(t, 110); got != test.allowed {
				t.Errorf("%d of 100 admitted, want %d", got, test.allowed)
			}
			if got := r.metric(t, "fluxgate_fleet_servers"); got != test.servers {
				t.Errorf("fluxgate_fleet_servers %q, want %q", got, test.servers)
			}
			warned := strings.Contains(strings.Join(r.Health(t.Context()).Store.Warnings, " "), unknown)
			if says := len(log.Lines(unknown)) == 1; says != (test.servers == "") || warned != says {
				t.Errorf("unknown in the log: %v, in health: %v", says, warned)
			}
		})
	}
}

// doctor says what a server that starts without Redis counts.
func TestDiagnose_Servers(t *testing.T) {
	away := "redis.uri=redis://" + testenv.FreeAddr(t)
	for name, test := range map[string]struct {
		set  []string
		want doctor.Severity
		says string
	}{
		"unknown": {nil, doctor.Watch, "applies the whole limit"},
		"known":   {[]string{"redis.expected-servers=3"}, doctor.Good, "1/3 of each limit"},
		"fixed":   {[]string{"ratelimit.fallback-share=0.5"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := config.Load(config.Sources{Set: append([]string{away, "mongo.enabled=false", "redis.mode=standalone", "rules.file=" + rulesFile(t, 100)}, test.set...)})
			if err != nil {
				t.Fatal(err)
			}
			var found doctor.Finding
			for _, f := range doctor.Diagnose(t.Context(), c) {
				if f.Part == "servers" {
					found = f
				}
			}
			if found.Severity != test.want || !strings.Contains(found.Says, test.says) {
				t.Errorf("%+v", found)
			}
		})
	}
}

// The number of servers is kept on disk, and is used at a start without Redis.
func TestFallback_CountOnDisk(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	settings := []string{"redis.uri=" + redis.URI(), "redis.leases=off", "rules.file=" + rulesFile(t, 100), "reload.strategy=POLLING"}
	copies := []string{t.TempDir(), t.TempDir()}
	var fleet []*running
	for _, folder := range copies {
		fleet = append(fleet, start(t, append([]string{"rules.copies=" + folder}, settings...)...))
	}
	for _, folder := range copies {
		testenv.Eventually(t, "the count is on disk", func() bool {
			text, err := os.ReadFile(filepath.Join(folder, "servers.json"))
			return err == nil && strings.HasPrefix(string(text), `{"servers":2,`)
		})
	}
	for _, r := range fleet {
		if err := r.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := redis.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, folder := range copies {
		r := start(t, append([]string{"rules.copies=" + folder}, settings...)...)
		if got := r.admitted(t, 110); got != 50 {
			t.Errorf("%d of 100 admitted by one of two servers, want 50", got)
		}
	}
}
