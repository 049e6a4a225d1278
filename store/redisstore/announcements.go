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

	"github.com/fluxgate/fluxgate/store"
)

// maxSilence is after what time without a message a subscription is tried.
const maxSilence = 2 * time.Second

// announcements of resets. Each is only a reason to read the fleet state: its content
// is not used. A gateway that misses one sees the reset at its next periodic read.
type announcements struct {
	announced chan struct{}
	tried     chan struct{}         // closed after the first subscription, or the attempt
	unheard   atomic.Pointer[error] // why there is no subscription
	untold    atomic.Bool           // the last reset here was not announced
}

func newAnnouncements() announcements {
	return announcements{announced: make(chan struct{}, 1), tried: make(chan struct{})}
}

// Resets implements [store.Store].
func (s *Store) Resets() uint64 { return s.fleet.changes.Load() }

// listen keeps a subscription until the store is closed.
func (r *fleetState) listen(life context.Context) {
	s, tried := r.store, sync.OnceFunc(func() { close(r.tried) })
	for failures := 0; life.Err() == nil; {
		err := r.hear(life, func() {
			failures = 0
			r.setUnheard(nil)
			tried()
			signal(r.announced) // some may have been missed
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
			r.setUnheard(err)
		}
		tried()
		select {
		case <-time.After(s.config.Refresh/2 + rand.N(s.config.Refresh)): //nolint:gosec // jitter, not a secret
		case <-life.Done():
		}
	}
}

func (r *fleetState) setUnheard(err error) {
	if former := r.unheard.Swap(&err); err == nil || former != nil && *former != nil {
		return
	}
	r.store.log.Warn("cannot subscribe to announcements: resets of other gateways are seen later", "channel", r.store.names.resets(),
		"after", r.store.config.Refresh.String(), "error", r.store.clean(err))
}

// hear receives announcements until the subscription fails, or its server is no
// longer the one to ask. In a cluster every server passes on all of them.
func (r *fleetState) hear(life context.Context, subscribed func()) error {
	s := r.store
	l := s.nodes.holder(s.names.fleet(), "")
	if l == nil {
		return errNoNode
	}
	if err := l.refusal(); err != nil {
		return err
	}
	client := l.client.Load()
	subscription := client.Subscribe(life)
	defer func() { _ = subscription.Close() }()
	defer context.AfterFunc(life, func() { _ = subscription.Close() })() // ends a receive
	subscribe := func() error {
		// Short: Close waits for a server that does not answer.
		ctx, cancel := context.WithTimeout(life, min(l.connectTimeout(), 500*time.Millisecond))
		defer cancel()
		return subscription.Subscribe(ctx, s.names.resets())
	}
	if err := subscribe(); err != nil {
		return err
	}
	for confirmed, silent := false, false; ; {
		message, err := subscription.ReceiveTimeout(life, maxSilence)
		switch _, isConfirmation := message.(*redis.Subscription); {
		case err == nil && !isConfirmation:
			signal(r.announced)
		case err == nil && !confirmed:
			confirmed = true
			subscribed()
		case err == nil:
		case !isTimeout(err) || silent:
			return err
		case l.client.Load() != client || s.nodes.holder(s.names.fleet(), "") != l:
			return nil
		default:
			// Subscribing again is answered: a connection may be dead without a sign.
			if err := subscribe(); err != nil {
				return err
			}
		}
		silent = err != nil
	}
}

// noteAnnounced notes whether a reset could be announced.
func (r *fleetState) noteAnnounced(ok bool) {
	if r.untold.Swap(!ok) || ok {
		return
	}
	r.store.log.Warn("cannot announce a reset: other gateways see it later", "channel", r.store.names.resets(),
		"after", r.store.config.Refresh.String(), "error", "the user may not PUBLISH")
}

// quiet returns why resets are seen late. It waits for the first subscription, but
// not longer than a decision.
func (r *fleetState) quiet(ctx context.Context) error {
	select {
	case <-r.tried:
	case <-time.After(r.store.config.Timeout):
	case <-ctx.Done():
	}
	why := "the user may not PUBLISH"
	if err := r.unheard.Load(); err != nil && *err != nil {
		why = r.store.clean(*err).Error()
	} else if !r.untold.Load() {
		return nil
	}
	return fmt.Errorf("resets are seen by other gateways after up to %v, not at once, since the channel %s cannot be used: %s: see https://fluxgate.github.io/fluxgate/redis#acl",
		r.store.config.Refresh, r.store.names.resets(), why)
}
