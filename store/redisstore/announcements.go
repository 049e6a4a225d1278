package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/redissub"
	"github.com/fluxgate/fluxgate/store"
)

// announcements of resets. Each is only a reason to read the fleet state: its content
// is not used. A gateway that misses one sees the reset at its next periodic read.
type announcements struct {
	announced chan struct{}
	tried     chan struct{}         // closed after the first subscription, or the attempt
	unheard   atomic.Pointer[error] // why there is no subscription
	untold    atomic.Bool           // the last reset here was not announced
}

// Resets implements [store.Store].
func (s *Store) Resets() uint64 { return s.fleet.changes.Load() }

// listen keeps a subscription until the store is closed.
func (f *fleetState) listen(life context.Context) {
	s, tried := f.store, sync.OnceFunc(func() { close(f.tried) })
	for failures := 0; life.Err() == nil; {
		err := f.hear(life, func() {
			failures = 0
			f.setUnheard(nil)
			tried()
			signal(f.announced) // some may have been missed
		})
		if life.Err() != nil {
			return
		}
		if err == nil {
			continue // on another server, or over other connections
		}
		if !errors.Is(err, store.ErrNotSent) { // the breaker logs that
			failures++
		}
		if failures > 1 || errors.As(err, new(redis.Error)) { // one lost connection is no reason for a warning
			f.setUnheard(err)
		}
		tried()
		_ = background.Sleep(life, s.config.Refresh/2+rand.N(s.config.Refresh)) //nolint:gosec // jitter, not a secret
	}
}

func (f *fleetState) setUnheard(err error) {
	if former := f.unheard.Swap(&err); err == nil || former != nil && *former != nil {
		return
	}
	f.store.log.Warn("cannot subscribe to announcements: resets of other processes take effect here later",
		"channel", f.store.names.resets(), "after", f.store.config.Refresh.String(), "error", f.store.clean(err))
}

// hear receives announcements until the subscription fails, or its server is no
// longer the one to ask. In a cluster every server passes on all of them.
func (f *fleetState) hear(life context.Context, subscribed func()) error {
	s := f.store
	q := s.nodes.holder(s.names.fleet(), "")
	if q == nil {
		return errNoNode
	}
	if err := q.refusal(); err != nil {
		return err
	}
	client := q.client.Load()
	channel := redissub.Channel{
		Client: client, Name: s.names.resets(), Subscribed: subscribed, Message: func(string) { signal(f.announced) },
		Left: func() bool { return q.client.Load() != client || s.nodes.holder(s.names.fleet(), "") != q },
	}
	return channel.Receive(life)
}

// noteAnnounced notes whether a reset could be announced.
func (f *fleetState) noteAnnounced(ok bool) {
	if f.untold.Swap(!ok) || ok {
		return
	}
	f.store.log.Warn("cannot announce a reset: it takes effect in other processes later", "channel", f.store.names.resets(),
		"after", f.store.config.Refresh.String(), "error", "the user may not PUBLISH")
}

// quiet returns why resets are seen late. It waits for the first subscription, but
// not longer than a decision.
func (f *fleetState) quiet(ctx context.Context) error {
	select {
	case <-f.tried:
	case <-time.After(f.store.config.Timeout):
	case <-ctx.Done():
	}
	why := "the user may not PUBLISH"
	if err := f.unheard.Load(); err != nil && *err != nil {
		why = f.store.clean(*err).Error()
	} else if !f.untold.Load() {
		return nil
	}
	return fmt.Errorf("resets take effect in other processes after up to %v, not at once, "+
		"since the channel %s cannot be used: %s: see https://fluxgate.github.io/fluxgate/redis#acl",
		f.store.config.Refresh, f.store.names.resets(), why)
}
