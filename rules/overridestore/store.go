// Package overridestore keeps the overrides of rules that come from a source which cannot be
// written: files, the configuration of envoyproxy/ratelimit, or an xDS server.
//
// A [Store] has two places for them. All servers share the first, Redis or, without Redis, the
// memory of the process. It alone is read, and written. The second is a folder of each server: a
// copy, to which the server appends every change that it sees. It is used only if the shared place
// has lost its data, or has not answered since the start.
//
// # Loss of data
//
// The shared data has a record: an id, which stays, and an epoch. The copy has the record too. If
// the shared data has none, it was lost: a server sets the record again, with the id of its copy and
// a new epoch, and merges its copy. Every other server sees the new epoch, and merges its own copy
// once. Of two versions of an override that with the higher revision stays, deletions included, so
// that the servers may do it in any order. A write that meets a lost record is refused until the copy
// of its server is merged.
//
// A copy with another id is that of another fleet. It is not used, and stays as it is. So does a copy
// if there is no record, but buckets beside it that are older than the copy and have another salt.
//
// # Missing rules
//
// Overrides whose rule, or rule set, is missing wait for it. After 35 days they are deleted.
package overridestore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/overridemap"
	"github.com/fluxgate/fluxgate/rules"
)

// Config configures a [Store]. Rules are required.
type Config struct {
	// Rules are those that are overridden.
	Rules rules.Source
	// Shared is where the fleet has the overrides. Nil means in this process.
	Shared rules.SharedOverrides
	// Folder is where the copy is. Empty means that there is none: what is lost stays lost.
	Folder string
	// Interval is how often the shared data is compared with the copy, and the rules are looked
	// for. 0 means 15s.
	Interval time.Duration
	// FirstWait is how long Open waits for the shared data. After that the copy is read until it
	// answers. 0 means 1s.
	FirstWait time.Duration
	// Logger gets a line for each problem, and for restored and deleted overrides. Nil means
	// slog.Default().
	Logger *slog.Logger
}

// Store is the overrides of rules that come from a read-only source. Its methods may be called
// concurrently.
type Store struct {
	config Config
	work   *background.Group
	wake   chan struct{}
	// offline is what the copy has. It is read until the shared data has answered.
	offline atomic.Pointer[overridemap.Map]
	// problems are those when the data was last compared.
	problems atomic.Pointer[[]string]
	alone    bool // no other process shares the overrides

	mu     sync.Mutex // of all that follows
	copies map[string]*ruleSetCopy
	own    copyState
	// current is the record that the shared data had last.
	current rules.OverrideRecord
	waiting waiting
	seen    map[string]seenRules
	// restored is how many overrides this server has merged, and when it did so last.
	restored   int
	restoredAt time.Time
	// foreign, damaged and unsaved are why the copy is not used, could not be read, or is not up to
	// date.
	foreign, damaged, unsaved error
}

var _ rules.OverrideEditor = (*Store)(nil)

// Open opens the copy and compares it with the shared data. A shared place that does not answer is no
// error.
func Open(ctx context.Context, config Config) (*Store, error) {
	if config.Rules == nil {
		return nil, errors.New("overrides: there is no source of rules")
	}
	alone := config.Shared == nil
	if alone {
		config.Shared = &Memory{}
	}
	config.Interval, config.FirstWait = cmp.Or(config.Interval, 15*time.Second), cmp.Or(config.FirstWait, time.Second)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	s := &Store{config: config, work: background.New(ctx), wake: make(chan struct{}, 1), alone: alone, seen: map[string]seenRules{}}
	if config.Folder != "" {
		if err := os.MkdirAll(config.Folder, 0o700); err != nil {
			return nil, fmt.Errorf("overrides: creating the folder for copies: %w", err)
		}
	}
	s.copies, s.damaged = openCopies(config.Folder)
	var err error
	if s.own, err = readState(config.Folder); err != nil {
		s.damaged = errors.Join(s.damaged, err)
	}
	first, cancel := context.WithTimeout(ctx, config.FirstWait)
	defer cancel()
	if err := s.Sync(first); err != nil {
		config.Logger.Warn("cannot read overrides: those of the copy on disk are in effect", "ruleSets", len(s.copies), "error", err)
		s.offline.Store(s.readCopies())
	}
	s.work.Go(s.run)
	return s, nil
}

// Close ends the comparison of the copy with the shared data.
func (s *Store) Close() error {
	s.work.Close()
	return nil
}

func (s *Store) run(ctx context.Context) {
	for ctx.Err() == nil {
		every := time.NewTimer(s.config.Interval)
		select {
		case <-ctx.Done():
		case <-every.C:
		case <-s.wake:
		}
		every.Stop()
		if ctx.Err() == nil {
			limited, cancel := context.WithTimeout(ctx, max(s.config.Interval, time.Minute))
			_ = s.Sync(limited) // it is tried again
			cancel()
		}
		_ = background.Sleep(ctx, min(s.config.Interval, 100*time.Millisecond))
	}
}

// readCopies returns what the copy has.
func (s *Store) readCopies() *overridemap.Map {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := &overridemap.Map{}
	for id, c := range s.copies {
		if c.path == "" || c.revision == 0 {
			continue
		}
		err := c.read(func(batch []rules.Override) error { all.Merge(id, batch, 0, 0, 0); return nil })
		if err == nil {
			all.Merge(id, nil, 0, c.revision, c.forgotten)
		}
	}
	return all
}

// from is what is read.
func (s *Store) from() rules.Overrides {
	if offline := s.offline.Load(); offline != nil {
		return offline
	}
	return s.config.Shared
}

// OverrideRevisions implements [rules.Overrides].
func (s *Store) OverrideRevisions(ctx context.Context, ruleSets []string) (map[string]int64, error) {
	defer func() { // something may have changed
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}()
	return s.from().OverrideRevisions(ctx, ruleSets)
}

// OverrideChanges implements [rules.Overrides].
func (s *Store) OverrideChanges(ctx context.Context, ruleSet string, after int64, limit int) (rules.OverridePage, error) {
	return s.from().OverrideChanges(ctx, ruleSet, after, limit)
}

// Override implements [rules.Overrides].
func (s *Store) Override(ctx context.Context, ruleSet, id string) (rules.Override, error) {
	return s.from().Override(ctx, ruleSet, id)
}

// ListOverrides implements [rules.Overrides].
func (s *Store) ListOverrides(ctx context.Context, ruleSet, after string, limit int) (rules.OverridePage, error) {
	return s.from().ListOverrides(ctx, ruleSet, after, limit)
}

// PutOverrides implements [rules.OverrideEditor]. The change is in the copy of this server when it
// returns, if that can be written.
func (s *Store) PutOverrides(ctx context.Context, ruleSet string, changes []rules.Override) (revision int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := newRecord("")
	for range 3 { // other servers may restore their copies meanwhile
		revision, err = s.config.Shared.PutSharedOverrides(ctx, s.current, next, ruleSet, changes)
		if !errors.Is(err, rules.ErrOverrideRecord) {
			break
		}
		if err := s.sync(ctx); err != nil {
			return 0, err
		}
	}
	if err != nil {
		return 0, err
	}
	_ = s.sync(ctx) // the change is made; what is missing in the copy follows
	return revision, nil
}

// newRecord returns a record with an id, a random one if it is empty, and a new epoch.
func newRecord(id string) rules.OverrideRecord {
	return rules.OverrideRecord{ID: cmp.Or(id, rand.Text()), Epoch: rand.Text()}
}
