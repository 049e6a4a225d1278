// Package warnings delivers the warnings of limits: it posts them to a webhook, and logs and
// counts them.
//
// Of the servers that share a store one delivers, as long as it renews its lease. A warning stays
// in the list of the store until it was delivered, so a server that dies loses none. It may post
// one that another server posts again, with the same id.
//
// A receiver may refuse the warnings of one rule set and accept others. So the server reads the
// whole list again and again, and keeps a bounded number of each rule set, which take turns.
package warnings

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/store"
)

// Store has the warnings of the processes that share it.
type Store interface {
	// PendingWarnings returns warnings that are not delivered, in the order of their places:
	// at most so many after a place, or the first ones if it is empty.
	PendingWarnings(ctx context.Context, after string, most int) ([]store.Warning, error)
	// DeliveredWarning removes a warning from the pending ones.
	DeliveredWarning(ctx context.Context, w *store.Warning) error
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
	batch    = 1_000                  // warnings read at once
	maxTries = 1_000                  // warnings of a rule set in memory
	minDelay = time.Second            // until the second post
	maxDelay = 10 * time.Minute       // between two posts
	longest  = 24 * time.Hour         // from a warning to its last post
)

// Courier delivers warnings. Use [New].
type Courier struct {
	config Config
	client *http.Client
	failed *logthrottle.Throttle
	slots  *semaphore.Weighted // of posts
	posts  sync.WaitGroup

	after string // the place of the last warning that was read, empty to begin again

	mu    sync.Mutex
	from  Store           // has the list
	tries map[string]*try // by the place in the list
}

// try is a warning on its way.
type try struct {
	store.Warning
	busy, delivered bool // busy while it is posted

	turn, failed int // its number in its rule set, and how many posts have failed
	err          error
	next         time.Time // of the next post
}

// New returns a courier that delivers nothing before [Courier.Run].
func New(config Config) *Courier {
	return &Courier{
		config: config, client: newClient(), failed: logthrottle.New(time.Minute),
		slots: semaphore.NewWeighted(maxPosts), tries: map[string]*try{},
	}
}

// Problem returns why warnings are late, empty if none is.
func (c *Courier) Problem() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	late, last := 0, error(nil)
	for _, t := range c.tries {
		if t.failed > 0 {
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
			if pause = interval; c.after != "" {
				pause /= 5 // there are more
			}
		}
	}
	c.posts.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if s := c.config.Store(); s != nil {
		_, _ = s.LeadWarnings(ctx, time.Millisecond) // the next server need not wait
	}
}

// round posts the warnings that are due, if this process leads.
func (c *Courier) round(ctx context.Context, s Store) (leads bool, err error) {
	if leads, err = s.LeadWarnings(ctx, lease); err != nil || !leads {
		c.due(nil, nil)
		return false, err
	}
	pending, err := s.PendingWarnings(ctx, c.after, batch)
	if err != nil {
		return true, err
	}
	if c.after = ""; len(pending) == batch {
		c.after = pending[batch-1].Place
	}
	brief, cancel := context.WithTimeout(ctx, lease/4) // the lease is renewed while posts take long
	defer cancel()
	for _, t := range c.due(s, pending) {
		if c.slots.Acquire(brief, 1) != nil {
			break
		}
		c.mu.Lock()
		t.busy = true
		c.mu.Unlock()
		c.posts.Go(func() {
			defer c.slots.Release(1)
			c.deliver(ctx, s, t)
		})
	}
	return leads, nil
}

// due adds pending warnings of a store to the others of it, and returns those to post now.
func (c *Courier) due(from Store, pending []store.Warning) (due []*try) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from != c.from {
		c.from, c.tries = from, map[string]*try{}
	}
	known := map[string]int{} // of each rule set
	for place, t := range c.tries {
		switch idle := !t.busy && !time.Now().Before(t.next); {
		case !t.delivered:
			if known[t.Key.RuleSet]++; idle {
				due = append(due, t)
			}
		case idle:
			delete(c.tries, place) // where Redis has lost the removal, it is read and posted again
		}
	}
	for i := range pending {
		if w := &pending[i]; c.tries[w.Place] == nil && known[w.Key.RuleSet] < maxTries {
			known[w.Key.RuleSet]++
			c.tries[w.Place] = &try{Warning: *w, turn: known[w.Key.RuleSet]}
			due = append(due, c.tries[w.Place])
		}
	}
	slices.SortFunc(due, func(a, b *try) int { return a.turn + a.failed - b.turn - b.failed })
	return due
}

// deliver posts a warning, removes it from the list and logs it. If that fails, it is posted again.
func (c *Courier) deliver(ctx context.Context, s Store, t *try) {
	result, err := Delivered, c.post(ctx, &t.Warning)
	switch {
	case err == nil:
	case ctx.Err() != nil: // the server stops, and another one posts it
		return
	case time.Since(time.UnixMicro(t.At)) >= longest:
		result = Dropped
	default:
		result = Failed
	}
	if result != Failed {
		brief, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if unremoved := s.DeliveredWarning(brief, &t.Warning); unremoved != nil {
			result, err = Failed, unremoved
		}
	}
	defer c.config.Count(t.Key.RuleSet, result) // when the log and health say it too
	if result == Failed {
		c.late(ctx, "cannot deliver a warning: it is posted again", "id", t.ID, "error", err)
	} else {
		c.log(t, result, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if result != Failed {
		t.busy, t.delivered, t.failed, t.next = false, true, 0, time.Now().Add(lease)
		return
	}
	delay := min(maxDelay, minDelay<<min(t.failed, 10))
	t.busy, t.failed, t.err = false, t.failed+1, err
	t.next = time.Now().Add(delay/2 + rand.N(delay)/2) //nolint:gosec // spreads load
	if t.failed > 8 && len(c.tries) >= maxTries {
		delete(c.tries, t.Place) // others get room; it is read again
	}
}

// late logs why warnings are delivered later, at most once a minute.
func (c *Courier) late(ctx context.Context, message string, args ...any) {
	c.failed.Log(ctx, c.config.Logger, slog.LevelWarn, message, args...)
}

// log logs a warning that is delivered or dropped.
func (c *Courier) log(t *try, result string, err error) {
	w := admin.WarningOf(&t.Warning, c.config.ShowKey(t.Key))
	log := c.config.Logger.With("id", w.ID, "ruleSet", w.RuleSet, "rule", w.Rule, "limit", w.Limit,
		"percent", w.Percent, "used", w.Text, "key", w.Key)
	if result == Dropped {
		log.Error("warning dropped: it was not delivered within a day", "error", err)
	} else {
		log.Warn("limit reached its warning level")
	}
}
