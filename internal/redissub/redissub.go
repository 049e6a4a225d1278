// Package redissub receives the messages of a Redis channel.
package redissub

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// Silence is the time without a message after which a subscription is tried, and then the time
// after which it is lost.
const Silence = time.Second

// Client can subscribe. Every client of go-redis is one.
type Client interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// Channel is a channel of a client.
type Channel struct {
	Client Client
	Name   string
	// Subscribed is called when Redis has confirmed the subscription: it does not deliver
	// earlier messages.
	Subscribed func()
	Message    func(payload string)
	// Left reports whether another client is to be used. It is called now and then, and may be nil.
	Left func() bool
}

// Receive subscribes and receives messages until the subscription fails, which is an error, until
// another client is to be used, or until ctx ends.
//
// After [Silence] it subscribes again, which Redis answers: a connection may be dead without a sign.
// The health check of redis.PubSub.Channel does not wait for an answer, and misses that.
func (c *Channel) Receive(ctx context.Context) error {
	subscription := c.Client.Subscribe(ctx)
	defer func() { _ = subscription.Close() }()
	defer context.AfterFunc(ctx, func() { _ = subscription.Close() })() // ends a receive
	subscribe := func() error {
		// Short: Close waits for a server that does not answer.
		ctx, cancel := context.WithTimeout(ctx, Silence/2)
		defer cancel()
		return subscription.Subscribe(ctx, c.Name)
	}
	if err := subscribe(); err != nil {
		return err
	}
	for confirmed, silent := false, false; ; {
		received, err := subscription.ReceiveTimeout(ctx, Silence)
		switch m := received.(type) { // nil after an error
		case *redis.Message:
			c.Message(m.Payload)
		case *redis.Subscription:
			if !confirmed {
				confirmed = true
				c.Subscribed()
			}
		}
		var timeout net.Error
		switch {
		case err == nil:
		case silent || !errors.As(err, &timeout) || !timeout.Timeout():
			return err
		case c.Left != nil && c.Left():
			return nil
		default:
			if err := subscribe(); err != nil {
				return err
			}
		}
		silent = err != nil
	}
}
