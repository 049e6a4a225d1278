package xdsrules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/pendingids"
	"github.com/fluxgate/fluxgate/rules"
)

// errNoResponse is the state of a connection before its first response.
var errNoResponse = errors.New("connected, and the server has sent no configuration yet")

// Source is a [rules.Source] of an xDS server. Use [Open].
type Source struct {
	config Config
	work   *background.Group
	// tried is closed when the first attempt to get the configuration has ended, well
	// or not.
	tried   chan struct{}
	trying  sync.Once
	mu      sync.Mutex // guards the fields below
	current *content   // of the last accepted response, nil if there is none
	// err is why current may not be what the server has, nil if it is.
	err      error
	away     bool // the connection has failed since the last response, which is logged
	watchers map[*pendingids.Set]bool
}

var _ rules.Watcher = (*Source)(nil)

// Open returns a source and connects in the background, until Close. An unavailable server
// is no error. Only the values of ctx are used.
func Open(ctx context.Context, config Config) (*Source, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("opening rules: %w", err)
	}
	s := &Source{
		config: config, work: background.New(ctx), tried: make(chan struct{}),
		watchers: map[*pendingids.Set]bool{}, err: errors.New("not connected yet"),
	}
	s.work.Go(s.run)
	return s, nil
}

// Close ends the connection.
func (s *Source) Close() error {
	s.work.Close()
	return nil
}

// Err returns why the rules may not be those of the server: it is unavailable, it has sent
// nothing since the connection was made, or its last response was rejected. The last
// accepted rules stay in effect meanwhile.
func (s *Source) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Loaded reports whether a response was accepted.
func (s *Source) Loaded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != nil
}

// IDs returns the ids of the rule sets, sorted. The error is that of [Source.Load].
func (s *Source) IDs(ctx context.Context) ([]string, error) {
	now, err := s.content(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(now.versions)), nil
}

// Revisions implements [rules.Source]. It waits for the first attempt to get the
// configuration, and returns an error until a response was accepted.
func (s *Source) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	now, err := s.content(ctx)
	if err != nil {
		return nil, err
	}
	heads := make(map[string]rules.Head, len(ids))
	for _, id := range ids {
		if head, known := now.heads[id]; known {
			heads[id] = head
		}
	}
	return heads, nil
}

// Load implements [rules.Source], with the errors of [Source.Revisions].
func (s *Source) Load(ctx context.Context, id string) (*rules.Version, error) {
	now, err := s.content(ctx)
	if err != nil {
		return nil, err
	}
	version, ok := now.versions[id]
	if !ok {
		return nil, fmt.Errorf("rule set %q at %s: %w", id, s.config.Server, rules.ErrNotFound)
	}
	return &version, nil
}

// content returns the last accepted content, or why there is none.
func (s *Source) content(ctx context.Context) (*content, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-s.tried:
	case <-ctx.Done():
		return nil, s.failure(ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, fmt.Errorf("no rules from the xDS server %s: %w", s.config.Server, s.err)
	}
	return s.current, nil
}

func (s *Source) failure(err error) error {
	return fmt.Errorf("no rules from the xDS server %s: %w: %w", s.config.Server, s.Err(), err)
}

// Watch implements [rules.Watcher]. It misses no change while it runs.
func (s *Source) Watch(ctx context.Context, changed func(id string)) error {
	w := pendingids.New()
	w.Add("") // for what changed before
	s.mu.Lock()
	s.watchers[w] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, w)
		s.mu.Unlock()
	}()
	return w.Deliver(ctx, changed)
}
