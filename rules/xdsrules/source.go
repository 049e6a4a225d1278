package xdsrules

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/pendingids"
	"github.com/fluxgate/fluxgate/internal/rulecontent"
	"github.com/fluxgate/fluxgate/rules"
)

// errNoResponse is the state of a connection before its first response.
var errNoResponse = errors.New("connected, and the server has sent no configuration yet")

// Source is a [rules.Source] of an xDS server. Use [Open]. Its methods wait for the first attempt
// to get the configuration, and return an error until a response was accepted.
type Source struct {
	rulecontent.Reader
	config Config
	work   *background.Group
	// tried is closed when the first attempt to get the configuration has ended, well
	// or not.
	tried   chan struct{}
	trying  sync.Once
	mu      sync.Mutex // guards the fields below
	current *content   // of the last accepted response, nil if there is none
	// err is why current may not be what the server has, nil if it is.
	err  error
	away bool // the connection has failed since the last response, which is logged

	changed *pendingids.Set // rule sets, for Watch
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
		changed: pendingids.New(), err: errors.New("not connected yet"),
	}
	s.Reader = rulecontent.Reader{Name: "at " + config.Server, Read: s.read}
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

// read returns the last accepted content, or why there is none. It waits for the first attempt
// to get it.
func (s *Source) read(ctx context.Context) (*rulecontent.Content, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-s.tried:
	case <-ctx.Done():
		return nil, fmt.Errorf("no rules from the xDS server %s: %w: %w", s.config.Server, s.Err(), ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, fmt.Errorf("no rules from the xDS server %s: %w", s.config.Server, s.err)
	}
	return &s.current.Content, nil
}

// Watch implements [rules.Watcher]. It misses no change while it runs. Calls at the same time
// share the changes.
func (s *Source) Watch(ctx context.Context, changed func(id string)) error {
	s.changed.Add("") // for what changed before
	return s.changed.Deliver(ctx, changed)
}
