package filerules

import (
	"context"
	"fmt"
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
	var heads map[string]rules.Head // as of the last report
	for broken := "unknown"; ; {
		now, err := s.refresh(ctx)
		message := fmt.Sprint(err)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case message != broken: // or the first time: the caller may have read older content
			changed("")
		case err == nil:
			for id, head := range now.Heads {
				if heads[id] != head {
					changed(id)
				}
			}
		}
		if broken = message; err == nil {
			heads = now.Heads
		}
		if err := background.Sleep(ctx, min(lookInterval, s.config.Interval)); err != nil {
			return err
		}
	}
}
