package filerules

import (
	"context"
	"time"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/rules"
)

// lookInterval is how often size and time of the files are compared.
const lookInterval = 250 * time.Millisecond

// Watch implements [rules.Watcher]. It looks for changes four times a second, and reads
// the content in every [Config.Interval] even if size and time are the same. It returns
// the error of ctx.
func (s *Source) Watch(ctx context.Context, changed func(id string)) error {
	w := watch{source: s, changed: changed}
	for {
		w.look(ctx)
		if err := background.Sleep(ctx, min(lookInterval, s.config.Interval)); err != nil {
			return err
		}
	}
}

// watch is one call of Watch.
type watch struct {
	source  *Source
	changed func(id string)

	heads  map[string]rules.Head // as of the last report
	broken string                // the error at that time
}

// look reads the files and reports which rule sets differ.
func (w *watch) look(ctx context.Context) {
	now, err := w.source.refresh(ctx)
	if ctx.Err() != nil {
		return
	}
	broken, before := w.broken, w.heads
	if w.broken = ""; err != nil {
		w.broken = err.Error()
	} else {
		w.heads = now.Heads
	}
	switch {
	case w.broken != broken, before == nil && err == nil:
		w.changed("") // the caller may have read older content
	case err == nil:
		for id, head := range now.Heads {
			if before[id] != head {
				w.changed(id)
			}
		}
	}
}
