package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	_ "github.com/fluxgate/fluxgate/internal/redislog" // bounds what go-redis logs
	"github.com/fluxgate/fluxgate/internal/unsent"
	"github.com/fluxgate/fluxgate/store"
)

// Store is a [store.Store] in Redis.
type Store struct {
	config Config
	log    *slog.Logger
	names  names
	nodes  *topology
	fleet  *fleetState
	clean  func(error) error

	heartbeat *heartbeat

	// eager and most are how many calls may be in flight to a node.
	eager, most int

	clock store.Clock // of Redis
	// roundTrip is that of the network as it was learned last, in nanoseconds: about that of
	// servers that have not answered yet.
	roundTrip atomic.Int64

	requests requestPool

	unsent       *unsent.Queue         // of the settlements for which no caller waits
	notGivenBack *logthrottle.Throttle // bounds the log lines about those that are lost
	noNode       *logthrottle.Throttle // and those about shards without a server

	unreadable, dropped recentError // states of buckets, and warnings

	work   *background.Group
	closed atomic.Bool // nothing is sent any more
}

var _ store.Store = (*Store)(nil)

// New returns a store on the servers of a client. It opens connections of its
// own, with the client's options but without its retries: a call that was sent
// and not answered must not be sent again. The caller closes the client; a
// client for Sentinel must stay open, since it finds the master.
func New(ctx context.Context, client redis.UniversalClient, config Config) (*Store, error) {
	target, err := targetOf(client)
	if err != nil {
		return nil, fmt.Errorf("creating a Redis store: %w", err)
	}
	return open(ctx, target, config)
}

// Open returns a store on the servers of a URI:
//
//	redis://user:password@host:6379/0                one server, or a cluster if it is part of one
//	redis://host1:6379,host2:6379                    a cluster; also redis://host1:6379,redis://host2:6379
//	redis-sentinel://host1:26379,host2:26379/master  behind Sentinel
//
// rediss:// and rediss-sentinel:// are the same over TLS.
func Open(ctx context.Context, uri string, config Config) (*Store, error) {
	target, err := parseURI(uri, config)
	if err != nil {
		return nil, fmt.Errorf("creating a Redis store: %w", err)
	}
	return open(ctx, target, config)
}

func open(ctx context.Context, target target, config Config) (*Store, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("creating a Redis store: %w", err)
	}
	work := background.New(ctx)
	if target.provider != nil && config.Credentials == nil {
		if config.Credentials, err = subscribe(target.provider, work); err != nil {
			return nil, fmt.Errorf("creating a Redis store: subscribing to credentials: %w", err)
		}
	}
	target.credentials = config.Credentials
	s := &Store{
		config: config, log: config.Logger, names: names{config.Prefix + ":", tagsFor(config.Shards)},
		clean: target.clean, eager: eagerCalls, most: mostCalls, work: work,
		notGivenBack: logthrottle.New(time.Second), noNode: logthrottle.New(failureLines),
		unreadable: newRecentError(), dropped: newRecentError(),
	}
	s.unsent = unsent.New(s.Settle, s.lostOwn)
	if config.clock != nil {
		// The times that tests pass in must arrive in the order they were read.
		s.eager, s.most = 1, 1
		s.clock.Report(config.clock())
	}
	if s.nodes, err = newTopology(ctx, s, target); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("creating a Redis store: %w", s.clean(err))
	}
	if s.fleet, err = newFleetState(ctx, s); err != nil {
		_ = s.Close()
		return nil, fmt.Errorf("creating a Redis store: %w", s.clean(err))
	}
	s.heartbeat = newHeartbeat(s)
	s.heartbeat.send(ctx)
	s.work.Go(s.fleet.keep)
	s.work.Go(s.fleet.listen)
	if config.Credentials != nil {
		s.work.Go(s.nodes.followCredentials)
	}
	for _, q := range s.nodes.known() {
		s.work.Go(func(life context.Context) { _ = q.connect(life, q.client.Load(), q.connectTimeout()) }) // calls show what is wrong
	}
	return s, nil
}

// String returns the store's address, without secrets.
func (s *Store) String() string {
	return fmt.Sprintf("redisstore %s at %s (%s)", s.config.Prefix, strings.Join(s.nodes.target.addrs, ","), s.nodes.mode)
}

// Take implements [store.Store].
func (s *Store) Take(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	if len(demands) > 0 && demands[0].Charging {
		return s.decide(ctx, opCharge, demands, out)
	}
	return s.decide(ctx, opTake, demands, out)
}

// Peek implements [store.Store].
func (s *Store) Peek(ctx context.Context, demands []store.Demand, out *store.Outcome) error {
	return s.decide(ctx, opPeek, demands, out)
}

// Now implements [store.Store].
func (s *Store) Now() time.Time { return s.clock.Now() }

// FromMemory implements [store.Store]: Redis decides every request.
func (s *Store) FromMemory(*store.Demand) string { return "" }

// Salt implements [store.Store].
func (s *Store) Salt() []byte { return s.fleet.salt }

// Close ends the store's connections. Calls in flight fail, and later ones with [store.ErrClosed].
func (s *Store) Close() error {
	s.closed.Store(true)
	if !s.work.Close() || s.nodes == nil {
		return nil
	}
	if n := s.unsent.Close(); n > 0 {
		s.lostOwn(fmt.Errorf("%w: %d settlements were not sent", unsent.ErrClosed, n))
	}
	return s.nodes.close()
}

// now is the time to pass to the script: none, but in tests.
func (s *Store) now() int64 {
	if s.config.clock == nil {
		return 0
	}
	return s.config.clock()
}

// wakeFleet refreshes the fleet state soon: a server that lost its scripts may
// have lost more.
func (s *Store) wakeFleet() { s.fleet.wake() }

// submit sends a request to the node of its shard.
func (s *Store) submit(r *shardRequest) {
	if s.closed.Load() {
		s.answer(r, errClosed)
		return
	}
	q := s.nodes.queue(r.shard)
	if q == nil {
		s.again([]*shardRequest{r}, notReached, errNoNode, "")
		return
	}
	q.submit(r)
}

var (
	errNoNode = errors.New("no server is known for the shard")
	errLate   = fmt.Errorf("%w: no answer in time", ErrUnavailable)
	errUnsent = fmt.Errorf("%w: %w in time", ErrUnavailable, store.ErrNotSent)
	errClosed = fmt.Errorf("%w: %w", ErrUnavailable, store.ErrClosed)
	errBusy   = errors.New("while it answers other calls: this process is too busy")
)

// await waits for a request, and counts how it ended.
func (s *Store) await(ctx context.Context, r *shardRequest) error {
	asked, shard := r.deadline.Add(-s.config.Timeout), r.shard
	if now := time.Now(); asked.After(now) {
		asked = now
	}
	err := s.wait(ctx, r)
	if err != nil && (!errors.Is(err, ErrUnavailable) || errors.Is(err, store.ErrClosed)) {
		return err // its caller has left, or sends it again, or nothing is sent any more
	}
	switch q := s.nodes.queue(shard); {
	case q != nil:
		reply := err != nil && isReply(r, err)
		if isLate(err) && q.answers() {
			err = fmt.Errorf("%w, %w", err, errBusy)
		}
		q.count(asked, err, reply)
	case err != nil:
		s.noNode.Log(context.Background(), s.log, slog.LevelWarn,
			"no Redis server is known for some buckets: "+withoutRedis, "error", err)
	}
	return err
}

// isLate reports whether a request had no answer in time.
func isLate(err error) bool { return err == errLate || err == errUnsent } //nolint:errorlint // not wrapped

// isReply reports whether a request failed with an error that cannot open the
// breaker.
func isReply(r *shardRequest, err error) bool {
	if isLate(err) { // the request may still be in flight
		return false
	}
	return !countsAsFailure(err) || r.nothingReadable()
}

// wait waits for a request, or for the end of its caller or its time, and then
// leaves. A call that others share may go on for longer. Close makes all calls
// fail, so wait need not watch for it.
func (s *Store) wait(ctx context.Context, r *shardRequest) error {
	r.timer.Reset(time.Until(r.deadline))
	defer r.timer.Stop()
	var left error
	// A call that has a settlement ends soon, and then it is known whether to send it again.
	for more := r.op == opSettle; ; more = false {
		select {
		case <-r.done:
			return r.err
		case <-ctx.Done():
			left = ctx.Err()
		case <-r.timer.C:
			if more && r.state.Load() == sent {
				r.timer.Reset(s.config.Timeout)
				continue
			}
		}
		break
	}
	switch never, ok := r.leave(); {
	case !ok:
		<-r.done
		return r.err
	case left != nil && never && r.op == opSettle:
		return fmt.Errorf("%w: %w", store.ErrNotSent, left)
	case left != nil:
		return left
	case never:
		return errUnsent
	}
	return errLate
}

// answer ends a request. What was taken for a caller that has left is given back, and a settlement
// that the caller has left to its call is sent later if that did not run.
func (s *Store) answer(r *shardRequest, err error) {
	if !r.finish(err) || r.state.Load() == withdrawn {
		return
	}
	if r.op == opSettle {
		if notSent(err) || errors.Is(err, errSplit) {
			s.settleLater(r)
		}
		return
	}
	takes := r.withdrawal()
	if takes == nil {
		return
	}
	if !s.work.Go(func(context.Context) { s.giveBack(takes) }) {
		s.unsent.Lose(unsent.ErrClosed)
	}
}

// settleLater keeps the settlements of a request for which no caller waits.
func (s *Store) settleLater(r *shardRequest) {
	for i := range r.takes {
		if t := r.takes[i]; r.actual[i] != renewSlots {
			t.Asked = t.Cost // the actual cost is corrected already
			_ = s.unsent.Add(&t, r.actual[i])
		}
	}
}

// lostOwn reports a settlement of this store itself that is given up.
func (s *Store) lostOwn(why error) {
	s.notGivenBack.Log(context.Background(), s.log, slog.LevelWarn,
		"cannot give back the tokens and slots of a rejected request, or of a caller that left; they come back with time",
		"error", s.clean(why))
}

// Unsent returns how many settlements of the store itself wait until a server is available, and how
// many are lost. It gives back what was taken for rejected requests and for callers that have left.
func (s *Store) Unsent() (waiting, lost int64) { return s.unsent.Waiting(), s.unsent.Lost() }

// again sends a request once more after a while, to the node that now has the
// keys, unless there is no time left.
func (s *Store) again(requests []*shardRequest, result callResult, err error, from string) {
	notRun := fmt.Errorf("%w: %w: %w", ErrUnavailable, store.ErrRefused, s.clean(err))
	requests = slices.DeleteFunc(requests, func(r *shardRequest) bool {
		if r.rejoin() {
			return false
		}
		s.answer(r, notRun) // its caller has left
		return true
	})
	if len(requests) == 0 {
		return
	}
	switch result {
	case moved:
		s.nodes.learn(requests[0].shard, redirect(err, from))
	case askElsewhere:
		if to := s.nodes.reach(redirect(err, from)); to != nil {
			for _, r := range requests {
				r.asking, r.alone = true, true
			}
			if requests[0].tries++; requests[0].tries < maxRedirects {
				to.submit(requests...)
				return
			}
		}
	case tryAgain:
		for _, r := range requests {
			r.alone = true
		}
	default:
		s.nodes.refreshSoon()
	}
	for _, r := range requests {
		r.tries++
		wait := backoff(result, r.tries)
		if time.Until(r.deadline) <= wait || r.tries > maxRedirects {
			s.answer(r, notRun)
			continue
		}
		if wait == 0 {
			s.submit(r)
			continue
		}
		time.AfterFunc(wait, func() { s.submit(r) })
	}
}

// maxRedirects bounds how often one request is redirected.
const maxRedirects = 64

// backoff is how long to wait before the next try.
func backoff(result callResult, tries int) time.Duration {
	if result == moved && tries <= 2 {
		return 0
	}
	return min(50*time.Millisecond, time.Millisecond<<min(tries, 6))
}
