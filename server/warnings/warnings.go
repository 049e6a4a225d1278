// Package warnings delivers the warnings of limits: it posts them to a webhook, and logs and
// counts them.
//
// Of the servers that share a store one delivers, as long as it renews its lease. A warning stays
// in the list of the store until it was delivered, so a server that dies loses none. It may post
// one that another server posts again, with the same id.
package warnings

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/store"
)

// Store has the warnings of the processes that share it.
type Store interface {
	// PendingWarnings returns the oldest warnings that are not delivered.
	PendingWarnings(ctx context.Context, most int) ([]store.Warning, error)
	// DeliveredWarnings removes warnings from the pending ones.
	DeliveredWarnings(ctx context.Context, delivered []store.Warning) error
	// RecentWarnings returns the last warnings, delivered or not, newest first.
	RecentWarnings(ctx context.Context, most int) ([]store.Warning, error)
	// LeadWarnings reports whether this process delivers, from now on for as long as lasts.
	LeadWarnings(ctx context.Context, lasts time.Duration) (bool, error)
}

// Config configures a [Courier]. Store, ShowKey, Count and Logger are required.
type Config struct {
	// Store returns the current store, nil while there is none.
	Store func() Store
	// ShowKey returns a key as people see it.
	ShowKey func(store.Key) string
	// URL is what warnings are posted to. Empty means that they are only logged.
	URL string
	// SecretFile is a file with the secret of the signature, empty for none.
	SecretFile string
	// Count counts a warning of a rule set with one of the results below.
	Count  func(ruleSet, result string)
	Logger *slog.Logger
}

// The results of a warning. Failed is a post that is repeated, the others are final.
const (
	Delivered = "delivered"
	Failed    = "failed"
	Dropped   = "dropped"
)

const (
	lease    = 10 * time.Second
	interval = 500 * time.Millisecond // between two looks at the list
	maxPosts = 16                     // at once
	batch    = 1_000                  // warnings read at once, beside those that have failed
	maxTries = 10_000                 // warnings in memory
	minDelay = time.Second            // until the second post
	maxDelay = 10 * time.Minute       // between two posts
	longest  = 24 * time.Hour         // from a warning to its last post
)

// Courier delivers warnings. Use [New].
type Courier struct {
	config Config
	client *http.Client
	failed *logthrottle.Throttle
	slots  chan struct{}
	posts  sync.WaitGroup
	secret atomic.Pointer[[]byte] // the last one that could be read

	mu    sync.Mutex
	tries map[string]*try // by the place in the list
}

// try is a warning on its way.
type try struct {
	store.Warning
	busy   bool // it is posted now
	failed int  // how many posts
	err    error
	next   time.Time // of the next post
	result string    // Delivered or Dropped, empty before
}

// New returns a courier that delivers nothing before [Courier.Run].
func New(config Config) *Courier {
	return &Courier{
		config: config, client: newClient(), failed: logthrottle.New(time.Minute),
		slots: make(chan struct{}, maxPosts), tries: map[string]*try{},
	}
}

// Problem returns why warnings are late, empty if none is.
func (c *Courier) Problem() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	late, last := 0, error(nil)
	for _, t := range c.tries {
		if t.failed > 0 && t.result == "" {
			late, last = late+1, t.err
		}
	}
	if late == 0 {
		return ""
	}
	return fmt.Sprintf("events.webhook: warnings not delivered yet: %d: %v", late, last)
}

// Run delivers until ctx ends.
func (c *Courier) Run(ctx context.Context) {
	defer c.client.CloseIdleConnections()
	for pause := interval; background.Sleep(ctx, pause) == nil; {
		s := c.config.Store()
		if s == nil {
			continue
		}
		leads, err := c.round(ctx, s)
		if err != nil && ctx.Err() == nil {
			c.late(ctx, "cannot read warnings: they are delivered later", "error", err)
		}
		pause = lease / 4 // many servers wait until the lease is free
		if leads {
			// Those that have failed are read again each time.
			pause = interval + time.Duration(len(c.tries))*200*time.Microsecond
		}
	}
	c.posts.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if s := c.config.Store(); s != nil && c.acknowledge(ctx, s) == nil {
		if leads, _ := s.LeadWarnings(ctx, time.Millisecond); leads { // the next server need not wait
			c.config.Logger.Debug("delivers no more warnings")
		}
	}
}

// round posts the warnings that are due, if this process leads.
func (c *Courier) round(ctx context.Context, s Store) (leads bool, err error) {
	if err := c.acknowledge(ctx, s); err != nil {
		return false, err
	}
	if leads, err = s.LeadWarnings(ctx, lease); err != nil {
		return false, err
	}
	var pending []store.Warning
	if leads {
		if pending, err = s.PendingWarnings(ctx, min(len(c.tries)+batch, maxTries)); err != nil {
			return leads, err
		}
	}
	end := time.After(lease / 4) // the lease is renewed while posts take long
	for _, t := range c.due(pending) {
		select {
		case c.slots <- struct{}{}:
		case <-end:
			return leads, nil
		case <-ctx.Done():
			return leads, nil
		}
		c.mu.Lock()
		t.busy = true
		c.mu.Unlock()
		c.posts.Go(func() {
			c.deliver(ctx, t)
			<-c.slots
		})
	}
	return leads, nil
}

// due returns the pending warnings to post now, and forgets those that are not pending.
func (c *Courier) due(pending []store.Warning) (due []*try) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, now := c.tries, time.Now()
	c.tries = make(map[string]*try, len(pending))
	for i := range pending {
		t := before[pending[i].Place]
		if t == nil {
			t = &try{Warning: pending[i]}
		}
		c.tries[t.Place] = t
		if !t.busy && t.result == "" && !now.Before(t.next) {
			due = append(due, t)
		}
	}
	return due
}

// deliver posts a warning, and notes when it is posted again if that fails.
func (c *Courier) deliver(ctx context.Context, t *try) {
	err := c.post(ctx, &t.Warning)
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	t.busy = false
	switch {
	case err == nil:
		t.result = Delivered
	case ctx.Err() != nil: // the server stops, and another one posts it
	case now.Sub(time.UnixMicro(t.At)) >= longest:
		t.result, t.err = Dropped, err
	default:
		delay := maxDelay
		if t.failed < 10 {
			delay = min(maxDelay, minDelay<<t.failed)
		}
		t.failed, t.err, t.next = t.failed+1, err, now.Add(delay/2+rand.N(delay)/2) //nolint:gosec // spreads load
		c.config.Count(t.Key.RuleSet, Failed)
		c.late(ctx, "cannot deliver a warning: it is posted again", "id", t.ID, "error", err)
	}
}

// late logs why warnings are delivered later, at most once a minute.
func (c *Courier) late(ctx context.Context, message string, args ...any) {
	c.failed.Log(ctx, c.config.Logger, slog.LevelWarn, message, args...)
}

// acknowledge removes the warnings that are delivered or dropped from the list, and logs them.
func (c *Courier) acknowledge(ctx context.Context, s Store) error {
	var done []store.Warning
	c.mu.Lock()
	for _, t := range c.tries {
		if t.result != "" {
			done = append(done, t.Warning)
		}
	}
	c.mu.Unlock()
	if len(done) == 0 {
		return nil
	}
	if err := s.DeliveredWarnings(ctx, done); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range done {
		t := c.tries[done[i].Place]
		delete(c.tries, t.Place)
		c.config.Count(t.Key.RuleSet, t.result)
		w := admin.WarningOf(&t.Warning, c.config.ShowKey(t.Key))
		log := c.config.Logger.With("id", w.ID, "ruleSet", w.RuleSet, "rule", w.Rule, "limit", w.Limit,
			"percent", w.Percent, "used", w.Text, "key", w.Key)
		if t.result == Dropped {
			log.Error("warning dropped: it was not delivered within a day", "error", t.err)
		} else {
			log.Warn("limit reached its warning level")
		}
	}
	return nil
}
