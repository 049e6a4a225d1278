package testenv

import (
	"context"
	"fmt"
	"time"
)

const (
	pollInterval = 10 * time.Millisecond
	pollLimit    = time.Minute // for contexts without a deadline
)

// poll calls check until it returns nil. When time runs out, the error says what
// was still wrong.
func poll(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		// What a check says once the time is up is only that the time is up.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), last)
		case <-ticker.C:
		}
	}
}
