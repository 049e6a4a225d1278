package server_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
)

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// A rule set whose rules say WAIT_FOR_REFILL is loaded with a warning where
// waiting is off, at the start and on every change.
func TestServer_WarnsOfWaitingThatIsOff(t *testing.T) {
	const waits = "id: api-limits\nrules:\n  - id: holds\n    onLimitExceed: WAIT_FOR_REFILL\n    bands: [{capacity: 2, refill: 1h}]\n"
	file := filepath.Join(t.TempDir(), "rules.yaml")
	begin := func(waiting string) *lockedBuffer {
		c, err := config.Load(config.Sources{Set: []string{
			"server.http=127.0.0.1:0", "server.admin=127.0.0.1:0", "redis.enabled=false", "mongo.enabled=false", "rules.file=" + file,
			"reload.polling-interval=100ms", "wait-for-refill.enabled=" + waiting,
		}})
		if err != nil {
			t.Fatal(err)
		}
		log := new(lockedBuffer)
		app, err := server.New(t.Context(), c, server.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = app.Shutdown(t.Context()) })
		return log
	}
	warnings := func(log *lockedBuffer) int { return strings.Count(log.String(), "rules say WAIT_FOR_REFILL") }
	write(t, file, waits)
	off := begin("false")
	if n := warnings(off); n != 1 || !strings.Contains(off.String(), "rules=holds") {
		t.Errorf("%d warnings at the start:\n%s", n, off)
	}
	write(t, file, strings.Replace(waits, "capacity: 2", "capacity: 3", 1))
	until(t, "the change is warned of too", func() bool { return warnings(off) == 2 })
	if on := begin("true"); warnings(on) != 0 {
		t.Errorf("waiting is on:\n%s", on)
	}
}
