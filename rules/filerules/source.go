package filerules

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/fluxgate/fluxgate/rules"
)

// Config is how files are read. Its zero value works.
type Config struct {
	// Interval is how often the content is looked at even if nothing seems to
	// have changed. 0 means 10s.
	Interval time.Duration
	// Settle is how long content must have stayed the same before it is taken:
	// a file that is written in place is half-written for a moment. 0 means
	// 50ms.
	Settle time.Duration
	// Logger gets what does not stop anything. Nil means slog.Default().
	Logger *slog.Logger
}

// Source is a [rules.Source] of files.
type Source struct {
	path   string
	config Config

	// Tests put others in their place.
	pause  func(context.Context, time.Duration) error
	notify func() (*fsnotify.Watcher, error)

	// turn is held by who looks at the files. It guards what follows.
	turn chan struct{}
	// current is the last content that was read, good or bad, and good the
	// last that was good. Either may be nil.
	current, good *state
}

var _ rules.Watcher = (*Source)(nil)

// Open names the file or the folder with the rules. It is not read yet, and
// need not be there: a gateway may have to start without it.
func Open(path string, config Config) (*Source, error) {
	if path == "" {
		return nil, errors.New("opening rules: no file or folder is named")
	}
	if config.Interval < 0 || config.Settle < 0 {
		return nil, fmt.Errorf("opening rules: Interval and Settle must not be negative, they are %s and %s", config.Interval, config.Settle)
	}
	if config.Interval == 0 {
		config.Interval = 10 * time.Second
	}
	if config.Settle == 0 {
		config.Settle = 50 * time.Millisecond
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return &Source{
		path: filepath.Clean(path), config: config, turn: make(chan struct{}, 1), pause: sleep, notify: fsnotify.NewWatcher,
	}, nil
}

// Revisions implements [rules.Source]. It is an error as long as anything is
// wrong with any of the files.
func (s *Source) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	now, err := s.look(ctx, false)
	if err != nil {
		return nil, err
	}
	heads := make(map[string]rules.Head, len(ids))
	for _, id := range ids {
		if head, known := now.heads[id]; known {
			heads[id] = head
		}
	}
	return heads, nil
}

// Load implements [rules.Source]. It is an [*Error] as long as anything is
// wrong with any of the files, whatever rule set that is in.
func (s *Source) Load(ctx context.Context, id string) (*rules.Version, error) {
	now, err := s.look(ctx, false)
	if err != nil {
		return nil, err
	}
	version, ok := now.versions[id]
	if !ok {
		return nil, fmt.Errorf("rule set %q in %s: %w", id, s.path, rules.ErrNotFound)
	}
	return &version, nil
}

// IDs are those of the rule sets that there are, in order. Its error is what
// is wrong with the files.
func (s *Source) IDs(ctx context.Context) ([]string, error) {
	now, err := s.look(ctx, false)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(now.versions)), nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
