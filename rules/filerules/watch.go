package filerules

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/fluxgate/fluxgate/rules"
)

const (
	// quiet is how long to wait after an event before the files are read, and
	// maxQuiet the longest wait while events continue.
	quiet    = 20 * time.Millisecond
	maxQuiet = 200 * time.Millisecond
)

// Watch implements [rules.Watcher]. It detects an edit in place, a file that is
// renamed over another, added or removed, changed links of a ConfigMap, and a
// folder that is deleted and created again: at once if the system reports
// changes, otherwise within [Config.Interval]. It returns the error of ctx.
func (s *Source) Watch(ctx context.Context, changed func(id string)) error {
	w := watch{source: s, changed: changed, quiet: quiet, maxQuiet: maxQuiet, refused: map[string]bool{}}
	notifier, err := s.notify()
	if err != nil {
		s.config.Logger.Warn("cannot watch rule files; changes are found at the next poll",
			"path", s.path, "interval", s.config.Interval, "error", err)
		return w.run(ctx, nil, nil)
	}
	defer notifier.Close() //nolint:errcheck // nothing was written
	w.notifier = notifier
	return w.run(ctx, notifier.Events, notifier.Errors)
}

// watch is one call of Watch.
type watch struct {
	source          *Source
	changed         func(id string)
	quiet, maxQuiet time.Duration

	notifier *fsnotify.Watcher // nil if there is none
	refused  map[string]bool   // folders that cannot be watched, already logged

	heads  map[string]rules.Head // as of the last report
	broken string                // the error at that time
}

func (w *watch) run(ctx context.Context, events <-chan fsnotify.Event, failures <-chan error) error {
	interval := time.NewTicker(w.source.config.Interval)
	defer interval.Stop()
	soon := time.NewTimer(0) // read the files at once
	defer soon.Stop()
	var since time.Time // the first event since the last read
	for {
		thorough := false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, open := <-events:
			if !open {
				events = nil
				continue
			}
			if since.IsZero() {
				since = time.Now()
			}
			soon.Reset(min(w.quiet, max(w.maxQuiet-time.Since(since), 0)))
			continue
		case err := <-failures:
			if err == nil {
				failures = nil
				continue
			}
			w.source.config.Logger.Warn("lost notifications about rule files; reading them again", "path", w.source.path, "error", err)
			w.changed("")
			thorough = true
		case <-interval.C:
			thorough = true
		case <-soon.C:
		}
		since = time.Time{}
		w.follow()
		w.notify(ctx, thorough)
	}
}

// notify reads the files and reports which rule sets differ.
func (w *watch) notify(ctx context.Context, thorough bool) {
	now, err := w.source.refresh(ctx, thorough)
	if ctx.Err() != nil {
		return
	}
	broken, before := w.broken, w.heads
	if w.broken = ""; err != nil {
		w.broken = err.Error()
	} else {
		w.heads = now.heads
	}
	switch {
	case w.broken != broken, before == nil && err == nil:
		w.changed("") // the caller may have read older content
	case err == nil:
		for id, head := range now.heads {
			if before[id] != head {
				w.changed(id)
			}
		}
	}
}

// follow watches every folder in which a change can affect the rules.
func (w *watch) follow() {
	if w.notifier == nil {
		return
	}
	watched, folders := w.notifier.WatchList(), w.source.folders()
	for _, folder := range watched {
		if !folders[folder] {
			_ = w.notifier.Remove(folder) // it may not exist
		}
	}
	for folder := range folders {
		if slices.Contains(watched, folder) {
			continue
		}
		err := w.notifier.Add(folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !w.refused[folder] {
			w.source.config.Logger.Warn("cannot watch a folder of rule files; changes are found at the next poll",
				"folder", folder, "interval", w.source.config.Interval, "error", err)
		}
		w.refused[folder] = err != nil
	}
}

// folders returns the folders of the path and of the targets of links, by their
// real paths, because a changed link leads to another path.
func (s *Source) folders() map[string]bool {
	folders := map[string]bool{}
	add := func(name string) {
		target, err := filepath.EvalSymlinks(name)
		if err != nil {
			return
		}
		if info, err := os.Stat(target); err == nil && info.IsDir() {
			folders[target] = true
		}
		folders[filepath.Dir(target)] = true
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(s.path)); err == nil {
		folders[parent] = true
	}
	add(s.path)
	files, _ := find(s.path, &s.config) // reading them reports the error
	for _, f := range files {
		add(f.name)
	}
	return folders
}
