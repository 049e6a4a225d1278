package memstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/bucketmath"
)

// Config configures a [Store]. Its zero value works.
type Config struct {
	// MaxBuckets is the maximum number of stored buckets. 0 means 1,000,000,
	// which is about 200 MB, or 350 MB if every bucket has its own rule.
	MaxBuckets int
	// Clock is the store's clock. Nil means the machine's clock without its
	// steps.
	Clock func() time.Time
	// Salt is mixed into the keys. Nil means a random salt.
	Salt []byte
}

// Store is a [store.Store] in memory.
type Store struct {
	store.Unshared
	shards []shard
	clock  func() int64
	salt   []byte
	resets resets

	warnings warnings
}

var _ store.Fallback = (*Store)(nil)

// New returns an empty store.
func New(config Config) (*Store, error) {
	if config.MaxBuckets < 0 {
		return nil, fmt.Errorf("MaxBuckets must not be negative, it is %d", config.MaxBuckets)
	}
	s, start := &Store{shards: newShards(cmp.Or(config.MaxBuckets, 1_000_000)), salt: config.Salt}, time.Now()
	s.clock = func() int64 { return start.Add(time.Since(start)).UnixMicro() } // it never steps
	if config.Clock != nil {
		s.clock = func() int64 { return config.Clock().UnixMicro() }
	}
	if s.salt == nil {
		s.salt = make([]byte, 32)
		_, _ = rand.Read(s.salt) // never fails
	}
	return s, nil
}

// Now implements [store.Store].
func (s *Store) Now() time.Time { return time.UnixMicro(s.clock()) }

// Take implements [store.Store].
func (s *Store) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	return s.decide(ctx, demands, out, true)
}

// Peek implements [store.Store].
func (s *Store) Peek(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	return s.decide(ctx, demands, out, false)
}

// Settle implements [store.Store].
func (s *Store) Settle(ctx context.Context, takes store.Takes, actual []int64) ([]store.Settlement, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := store.CheckTakes(takes, actual); err != nil {
		return nil, err
	}
	settled := make([]store.Settlement, len(takes))
	for i := range takes {
		settled[i] = s.settle(&takes[i], actual[i])
	}
	return settled, nil
}

func (s *Store) settle(t *store.Taken, actual int64) store.Settlement {
	id := s.resets.place(&t.Key)
	shard := &s.shards[s.shardOf(id)]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	now := s.clock()
	e, state := shard.find(id), bucket.State{}
	if e.used(now) {
		state = e.state
	}
	settled, changed := bucketmath.Settle(inPeriods(t, &state), &state, actual, now)
	if changed {
		shard.keep(e, id, &t.Key, &state)
	}
	return settled
}

// inPeriods returns a take whose quotas end when those of a state do, if they nearly do: after
// [Store.SetLevel] a period ends by the clock of the shared store.
func inPeriods(t *store.Taken, state *bucket.State) *store.Taken {
	own := *t
	own.Due = slices.Clone(t.Due)
	for i := range own.Due {
		for k := range state.Slots {
			slot := &state.Slots[k]
			if slot.Kind != bucket.Quota || slot.ID != t.Bands[i].ID || t.Bands[i].Kind != bucket.Quota {
				continue
			}
			if apart := slot.Steps.End - t.Due[i]; max(apart, -apart) <= min(time.Second.Microseconds(), slot.Steps.Longest/4) {
				own.Due[i] = slot.Steps.End
			}
		}
	}
	return &own
}

// Extend implements [store.Store].
func (s *Store) Extend(ctx context.Context, takes store.Takes) (held []bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := store.CheckTakes(takes, takes.Same(0)); err != nil {
		return nil, err
	}
	for i := range takes {
		held = append(held, s.extend(&takes[i]))
	}
	return held, nil
}

func (s *Store) extend(t *store.Taken) bool {
	id := s.resets.place(&t.Key)
	shard := &s.shards[s.shardOf(id)]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	now, e := s.clock(), shard.find(id)
	e.adopt(now)
	var view bucket.View
	e.look(t.Bands, now, &view)
	held := view.Extend(t.Bands, t.Holder)
	if held && e != nil { // the other bands stay: the rule may have other numbers now
		e.full = e.state.At + e.state.FullAfter()
	}
	return held
}

// Reset implements [store.Store].
func (s *Store) Reset(ctx context.Context, what store.Reset) (did bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if what.RuleSet == "" {
		return false, errors.New("resetting buckets: no rule set is named")
	}
	if what.ID == (store.KeyID{}) {
		err := s.resets.add(what.RuleSet, what.Rule, what.Exists)
		return err == nil, err
	}
	id := s.resets.place(&what.Key)
	shard := &s.shards[s.shardOf(id)]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if e := shard.find(id); e != nil {
		e.forget()
	}
	return true, nil
}

// Salt implements [store.Store].
func (s *Store) Salt() []byte { return s.salt }

// Close implements [store.Store]. It does nothing.
func (s *Store) Close() error { return nil }

// Stats are counters of a store.
type Stats struct {
	// Buckets is the number of stored buckets. Some may be full already.
	Buckets int
	// Evicted is the number of buckets that were evicted before they were full.
	Evicted uint64
	// DroppedWarnings is the number of pending warnings that made room for later ones.
	DroppedWarnings uint64
}

// Stats returns the store's counters.
func (s *Store) Stats() Stats {
	var sum Stats
	for i := range s.shards {
		shard := &s.shards[i]
		shard.mu.Lock()
		sum.Buckets += len(shard.entries)
		sum.Evicted += shard.evicted
		shard.mu.Unlock()
	}
	s.warnings.mu.Lock()
	defer s.warnings.mu.Unlock()
	sum.DroppedWarnings = s.warnings.dropped
	return sum
}
