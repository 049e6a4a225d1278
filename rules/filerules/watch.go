package filerules

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/fluxgate/fluxgate/rules"
)

const (
	// quiet is how long nothing must happen before the files are looked at,
	// and maxQuiet how long that is waited for.
	quiet    = 20 * time.Millisecond
	maxQuiet = 200 * time.Millisecond
)

// Watch implements [rules.Watcher]. It notices an edit in place, a file that
// is renamed over another, added or taken away, the links of a ConfigMap, and
// a folder that is deleted and made again, at once where the system tells of
// changes and else within [Config.Interval]. It returns the error of ctx.
func (s *Source) Watch(ctx context.Context, changed func(id string)) error {
	w := watch{source: s, changed: changed, quiet: quiet, maxQuiet: maxQuiet}
	notifier, err := s.notify()
	if err != nil {
		s.config.Logger.Warn("changes of rule files are not noticed at once", "path", s.path, "every", s.config.Interval, "error", err)
		return w.run(ctx, nil, nil)
	}
	defer notifier.Close() //nolint:errcheck // there is nothing to lose
	w.notifier = notifier
	return w.run(ctx, notifier.Events, notifier.Errors)
}

// watch is one call of Watch.
type watch struct {
	source          *Source
	changed         func(id string)
	quiet, maxQuiet time.Duration

	notifier *fsnotify.Watcher      // nil if there is none
	folders  map[string]fs.FileInfo // that the notifier looks at
	refused  map[string]bool        // that it could not, and that was said

	heads  map[string]rules.Head // as they were told last
	broken string                // what was wrong then
}

func (w *watch) run(ctx context.Context, events <-chan fsnotify.Event, failures <-chan error) error {
	interval := time.NewTicker(w.source.config.Interval)
	defer interval.Stop()
	soon := time.NewTimer(0) // the first look
	defer soon.Stop()
	var since time.Time // the first event that was not looked after
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
			w.source.config.Logger.Warn("notices of changes of rule files were lost", "path", w.source.path, "error", err)
			w.changed("")
			thorough = true
		case <-interval.C:
			thorough = true
		case <-soon.C:
		}
		since = time.Time{}
		w.follow()
		w.tell(ctx, thorough)
	}
}

// tell looks at the files and says what is different.
func (w *watch) tell(ctx context.Context, thorough bool) {
	now, err := w.source.look(ctx, thorough)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		if message := err.Error(); message != w.broken {
			w.broken = message
			w.changed("")
		}
		return
	case w.broken != "":
		w.broken, w.heads = "", now.heads
		w.changed("")
		return
	}
	before := w.heads
	w.heads = now.heads
	if before == nil {
		w.changed("") // the first look: nobody knows what was read before it
		return
	}
	for id, head := range now.heads {
		if before[id] != head {
			w.changed(id)
		}
	}
}

// follow has the notifier look at every folder that matters now.
func (w *watch) follow() {
	if w.notifier == nil {
		return
	}
	watched := map[string]bool{}
	for _, folder := range w.notifier.WatchList() {
		watched[folder] = true
	}
	folders := w.source.folders()
	for folder, info := range folders {
		if watched[folder] && os.SameFile(info, w.folders[folder]) {
			continue
		}
		if watched[folder] {
			_ = w.notifier.Remove(folder) // another folder has its name now
		}
		err := w.notifier.Add(folder)
		if err == nil {
			delete(w.refused, folder)
			continue
		}
		delete(folders, folder)
		if !errors.Is(err, fs.ErrNotExist) && !w.refused[folder] && len(w.refused) < maxFiles {
			if w.refused == nil {
				w.refused = map[string]bool{}
			}
			w.refused[folder] = true
			w.source.config.Logger.Warn("changes of rule files are not noticed at once",
				"folder", folder, "every", w.source.config.Interval, "error", err)
		}
	}
	for folder := range watched {
		if _, matters := folders[folder]; !matters {
			_ = w.notifier.Remove(folder) // it may be gone already
		}
	}
	w.folders = folders
}

// folders are those in which a change can change the rules: the one with the
// file or folder, the folder itself, and wherever links lead.
func (s *Source) folders() map[string]fs.FileInfo {
	folders := map[string]fs.FileInfo{}
	add := func(folder string) {
		if _, known := folders[folder]; known {
			return
		}
		info, err := os.Stat(folder)
		if err != nil || !info.IsDir() {
			return
		}
		for _, other := range folders {
			if os.SameFile(info, other) {
				return // known by another name
			}
		}
		folders[folder] = info
	}
	add(filepath.Dir(s.path))
	add(s.path)
	if target, err := filepath.EvalSymlinks(s.path); err == nil {
		add(filepath.Dir(target))
	}
	files, err := find(s.path)
	if err != nil {
		return folders
	}
	for _, f := range files {
		if target, err := filepath.EvalSymlinks(f.name); err == nil {
			add(filepath.Dir(target))
		}
	}
	return folders
}
