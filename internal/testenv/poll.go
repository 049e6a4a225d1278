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

// poll calls check until it returns nil. After the timeout it returns the last error of
// check.
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
		// An error after the timeout only reports the timeout.
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
