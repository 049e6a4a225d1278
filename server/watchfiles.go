package server

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"time"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/server/config"
)

const (
	// filesInterval is how often the files of tokens are read.
	filesInterval = time.Second
	// settle is how long content must not change before it is loaded: a file that is written
	// in place is incomplete for a moment.
	settle = 50 * time.Millisecond
)

// watchedFiles are files that are loaded together.
type watchedFiles struct {
	names []string // empty ones are ignored
	every time.Duration
	load  func() error
	kept  string // what stays in use if they cannot be loaded
}

// watch loads the files when their content has changed, until ctx ends. Content that cannot be
// loaded is tried once.
func (w watchedFiles) watch(ctx context.Context, log *slog.Logger) {
	failed := logthrottle.New(time.Minute)
	var loaded [sha256.Size]byte // they may have changed since the start
	for background.Sleep(ctx, w.every) == nil {
		now, err := w.sum()
		if err == nil && now != loaded && background.Sleep(ctx, settle) == nil {
			if later, _ := w.sum(); later != now {
				continue // it is being written
			}
			loaded = now
			err = w.load()
		}
		if err != nil {
			failed.Log(ctx, log, slog.LevelError, "cannot load changed files: "+w.kept+" stay in use", "error", err)
		}
	}
}

// sum returns a hash of the content.
func (w watchedFiles) sum() (all [sha256.Size]byte, err error) {
	for _, name := range w.names {
		if name == "" {
			continue
		}
		data, err := config.ReadFile(name)
		if err != nil {
			return all, err
		}
		one := sha256.Sum256(data)
		all = sha256.Sum256(append(all[:], one[:]...))
	}
	return all, nil
}
