package redisstore

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/internal/redissub"
)

// credentialsInterval is how often the credentials are compared with those of connections.
const credentialsInterval = 250 * time.Millisecond

// streamed are the latest credentials of a provider.
type streamed struct {
	latest atomic.Pointer[auth.Credentials]
}

// OnNext and OnError implement [auth.CredentialsListener].
func (s *streamed) OnNext(c auth.Credentials) { s.latest.Store(&c) }
func (s *streamed) OnError(error)             {} // the latest stay in use

// subscribe returns the credentials of a provider, until the work ends. Clients do not get the
// provider: go-redis panics when a Conn of such a client is opened, and calls cannot use
// connections that it authenticates again.
func subscribe(provider auth.StreamingCredentialsProvider, work *background.Group) (func() (user, password string), error) {
	s := new(streamed)
	first, unsubscribe, err := provider.Subscribe(s)
	if err != nil {
		return nil, err
	}
	s.latest.CompareAndSwap(nil, &first)
	work.Go(func(life context.Context) {
		<-life.Done()
		_ = unsubscribe()
	})
	return func() (user, password string) { return (*s.latest.Load()).BasicAuth() }, nil
}

// followCredentials renews connections when the credentials change, until the store is closed.
func (t *topology) followCredentials(life context.Context) {
	failed := logthrottle.New(time.Minute)
	for background.Sleep(life, credentialsInterval) == nil {
		for _, q := range t.known() {
			if err := q.renew(life); err != nil && life.Err() == nil {
				failed.Log(life, t.store.log, slog.LevelWarn,
					"cannot connect to Redis with the new credentials: open connections stay in use; trying again",
					"node", q.address(), "error", t.store.clean(err))
			}
		}
	}
}

// renew replaces connections with former credentials, once the node accepts the new ones.
func (q *nodeQueue) renew(life context.Context) error {
	former := q.client.Load()
	user, password := q.store.config.Credentials()
	if o := former.Options(); o.Username == user && o.Password == password || q.outage() != nil {
		return nil // a probe uses the new ones
	}
	client := q.store.nodes.target.connect(q.addr, q.store.config)
	err := q.tryCredentials(life, client)
	if err != nil || !q.client.CompareAndSwap(former, client) { // a probe has replaced it
		_ = client.Close()
		return err
	}
	q.store.work.Go(func(life context.Context) {
		_ = background.Sleep(life, 2*redissub.Silence+2*q.store.config.Timeout) // until calls and the subscription have left it
		_ = former.Close()
	})
	return nil
}

// tryCredentials opens the connections that calls need, with the credentials of a client.
func (q *nodeQueue) tryCredentials(life context.Context, client *redis.Client) error {
	ctx, cancel := context.WithTimeout(life, q.connectTimeout())
	defer cancel()
	err := client.Eval(ctx, probeScript, []string{q.store.names.probe(max(0, q.shard()))}).Err()
	if redis.IsAuthError(err) || redis.IsPermissionError(err) || !isAnswer(err) {
		return err
	}
	q.mu.Lock()
	n := eagerCalls
	if q.connected {
		n = mostCalls
	}
	q.mu.Unlock()
	return q.openConnections(ctx, client, n)
}
