package redisstore

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/store"
)

// ErrDisagrees is wrapped by errors about settings that differ from those of
// the fleet. The processes would not share buckets.
var ErrDisagrees = errors.New("this process has other settings than the fleet")

// format is the version of keys and values. Gateways with another format do not
// start.
const format = "2"

// The fields of the fleet state.
const (
	fieldFormat = "format"
	fieldShards = "shards"
	fieldSalt   = "salt"
	fieldSecret = "secret-check"
	fieldSince  = "since"
)

// fleetState is what all gateways agree on, as one hash under the prefix:
// format, number of shards, salt, a check value of the secret, since when it is
// there, and the resets.
// The first gateway writes it, and every gateway restores it when the server
// has lost it.
type fleetState struct {
	store *Store
	salt  []byte            // with the secret mixed in
	own   map[string]string // our settings

	mu        sync.Mutex // held while resets change
	resets    atomic.Pointer[generations]
	changes   atomic.Uint64 // of resets
	forgotten atomic.Int64  // resets, by this gateway
	since     atomic.Int64  // when the fleet state was first written, by the server's clock
	soon      chan struct{}
	trouble   atomic.Pointer[error]

	announcements
}

func newFleetState(ctx context.Context, s *Store) (*fleetState, error) {
	f := &fleetState{store: s, soon: make(chan struct{}, 1)}
	f.announced, f.tried = make(chan struct{}, 1), make(chan struct{})
	f.resets.Store(&generations{})
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	f.own = map[string]string{
		fieldFormat: format, fieldShards: strconv.Itoa(s.config.Shards),
		fieldSalt: hex.EncodeToString(salt), fieldSecret: checkValue(s.config.Secret),
	}
	// The first gateway writes the salt, and all others read it.
	found, _, err := f.exchange(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the fleet state: %w", err)
	}
	f.own[fieldSalt] = found[fieldSalt]
	if err := f.compare(found); err != nil {
		return nil, err
	}
	raw, err := hex.DecodeString(found[fieldSalt])
	if err != nil || len(raw) < 16 {
		return nil, fmt.Errorf("%w: the salt in the fleet state is invalid", ErrDisagrees)
	}
	f.salt = saltWith(raw, s.config.Secret)
	f.adopt(found, 0)
	return f, nil
}

// checkValue identifies a secret without revealing it.
func checkValue(secret []byte) string {
	if len(secret) == 0 {
		return "none"
	}
	return hex.EncodeToString(sign(secret, "fluxgate secret check")[:8])
}

// saltWith mixes the secret into the salt.
func saltWith(salt, secret []byte) []byte {
	if len(secret) == 0 {
		return salt
	}
	return sign(secret, "fluxgate salt "+hex.EncodeToString(salt))
}

func sign(key []byte, message string) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(message)) // never fails
	return mac.Sum(nil)
}

// exchange writes missing fields and reads all fields, atomically: two gateways
// that start together and disagree must not each write a part. It reports
// whether all of it was missing. With the answer comes the time of the server, so that its
// clock is known before the first decision, and after a time without decisions.
func (f *fleetState) exchange(ctx context.Context) (found map[string]string, missing bool, err error) {
	name := f.store.names.fleet()
	own := make([]any, 0, 2*len(f.own))
	for field, value := range f.own {
		own = append(own, field, value)
	}
	reply, err := onMaster(ctx, f.store.nodes, name, func(ctx context.Context, c commander) ([]any, error) {
		return c.Eval(ctx, agreeScript, []string{name}, own...).Slice()
	})
	if err != nil {
		return nil, false, err
	}
	if len(reply) != 3 {
		return nil, false, fmt.Errorf("a reply of %d parts", len(reply))
	}
	written, _ := reply[0].(int64)
	if now, ok := reply[2].(int64); ok && f.store.config.clock == nil {
		f.store.clock.Report(now)
	}
	pairs, _ := reply[1].([]any)
	found = make(map[string]string, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		found[fmt.Sprint(pairs[i])] = fmt.Sprint(pairs[i+1])
	}
	return found, int(written) == len(f.own), nil
}

// compare returns an error if the fleet state differs from our settings.
func (f *fleetState) compare(found map[string]string) error {
	for _, c := range []struct{ field, what string }{
		{fieldFormat, "the format version of the buckets"},
		{fieldShards, "the number of shards"},
		{fieldSecret, "the secret of the keys"},
		{fieldSalt, "the salt of the keys"},
	} {
		if theirs := found[c.field]; theirs != f.own[c.field] {
			if c.field == fieldShards {
				return fmt.Errorf("%w: %s is %s in the fleet state %s and %s here",
					ErrDisagrees, c.what, theirs, f.store.names.fleet(), f.own[c.field])
			}
			return fmt.Errorf("%w: %s differs from the fleet state %s", ErrDisagrees, c.what, f.store.names.fleet())
		}
	}
	return nil
}

// adopt merges the resets in the fleet state, each at the later generation. It
// returns those that the fleet state has lost. If this gateway has forgotten some since
// the fleet state was read, they may be in it, and it is left to the next refresh.
func (f *fleetState) adopt(found map[string]string, forgotten int64) (lost generations) {
	if since, err := strconv.ParseInt(found[fieldSince], 10, 64); err == nil {
		f.since.Store(since)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.forgotten.Load() != forgotten {
		return nil
	}
	current := *f.resets.Load()
	next := maps.Clone(current)
	for field, value := range found {
		if g, err := strconv.ParseInt(value, 10, 64); err == nil {
			if _, _, ok := splitField(field); ok {
				next[field] = max(next[field], g)
			}
		}
	}
	next.tidy()
	next.forget(found)
	lost = generations{}
	for field, g := range next {
		if found[field] != strconv.FormatInt(g, 10) {
			lost[field] = g
		}
	}
	if !maps.Equal(next, current) {
		f.resets.Store(&next)
		f.changes.Add(1)
	}
	return lost
}

// note adds a reset that this gateway has made, and forgets others.
func (f *fleetState) note(field string, generation int64, forget []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := maps.Clone(*f.resets.Load())
	next[field] = max(next[field], generation)
	for _, gone := range forget {
		delete(next, gone)
	}
	f.forgotten.Add(int64(len(forget)))
	next.tidy()
	f.resets.Store(&next)
	f.changes.Add(1)
}

func (f *fleetState) generations() generations { return *f.resets.Load() }

// wakePause is the time between two refreshes, however often they are asked for.
const wakePause = 100 * time.Millisecond

// keep refreshes the fleet state periodically until the store is closed.
func (f *fleetState) keep(life context.Context) {
	every := time.NewTicker(f.store.config.Refresh)
	defer every.Stop()
	disagrees := logthrottle.New(time.Minute)
	for {
		announced := false
		select {
		case <-every.C:
		case <-f.soon:
		case <-f.announced:
			announced = true
		case <-life.Done():
			return
		}
		if !announced {
			f.store.nodes.refreshSoon() // a master that is cut off does not redirect
		}
		ctx, cancel := context.WithTimeout(life, time.Second)
		refreshed := make(chan error, 1)
		go func() {
			err := f.refresh(ctx)
			if err == nil && !announced {
				f.store.heartbeat.send(ctx)
			}
			refreshed <- err
		}()
		var err error
		select {
		case err = <-refreshed:
		case <-life.Done(): // go-redis does not notice that the store is closed
		}
		cancel()
		if errors.Is(err, ErrDisagrees) {
			disagrees.Log(context.Background(), f.store.log, slog.LevelError,
				"the fleet state has changed: this process no longer shares buckets with the others; restart it", "error", err)
		}
		f.trouble.Store(&err)
		if countsAsFailure(err) && !errors.Is(err, store.ErrNotSent) {
			f.wake() // until the breaker opens, also without requests
		}
		_ = background.Sleep(life, min(wakePause, f.store.config.Refresh))
	}
}

// refresh restores what the fleet state has lost and merges what is new.
func (f *fleetState) refresh(ctx context.Context) error {
	forgotten := f.forgotten.Load()
	found, missing, err := f.exchange(ctx)
	if err != nil {
		return err
	}
	if missing {
		f.store.log.Warn("Redis has lost its data (FLUSHALL, or a restart without persistence): buckets are full again",
			"record", f.store.names.fleet())
	}
	if err := f.compare(found); err != nil {
		return err
	}
	var pairs []any
	for field, g := range f.adopt(found, forgotten) {
		pairs = append(pairs, field, g)
	}
	name := f.store.names.fleet()
	for some := range slices.Chunk(pairs, 2_000) {
		_, err := onMaster(ctx, f.store.nodes, name, func(ctx context.Context, c commander) (int64, error) {
			return c.HSet(ctx, name, some...).Result()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *fleetState) wake() { signal(f.soon) }

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
