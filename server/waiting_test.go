package server_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
)

// A rule set whose rules say WAIT_FOR_REFILL is loaded with a warning where
// waiting is off, at the start and on every change.
func TestServer_WarnsOfWaitingThatIsOff(t *testing.T) {
	const waits = "id: api-limits\nrules:\n  - id: holds\n    onLimitExceed: WAIT_FOR_REFILL\n    bands: [{capacity: 2, refill: 1h}]\n"
	file := filepath.Join(t.TempDir(), "rules.yaml")
	begin := func(waiting string) *testenv.LogBuffer {
		c, err := config.Load(config.Sources{Set: []string{
			"server.http=127.0.0.1:0", "server.admin=127.0.0.1:0", "server.drain.delay=0s", "redis.enabled=false", "mongo.enabled=false", "rules.file=" + file,
			"reload.polling-interval=100ms", "wait-for-refill.enabled=" + waiting,
		}})
		if err != nil {
			t.Fatal(err)
		}
		log := new(testenv.LogBuffer)
		app, err := server.New(t.Context(), c, server.Options{Logger: log.Logger()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = app.Shutdown(t.Context()) })
		return log
	}
	warnings := func(log *testenv.LogBuffer) int { return strings.Count(log.String(), "rules have WAIT_FOR_REFILL") }
	write(t, file, waits)
	off := begin("false")
	if n := warnings(off); n != 1 || !strings.Contains(off.String(), "rules=holds") {
		t.Errorf("%d warnings at the start:\n%s", n, off)
	}
	write(t, file, strings.Replace(waits, "capacity: 2", "capacity: 3", 1))
	testenv.Eventually(t, "the change is warned of too", func() bool { return warnings(off) == 2 })
	if on := begin("true"); warnings(on) != 0 {
		t.Errorf("waiting is on:\n%s", on)
	}
}
