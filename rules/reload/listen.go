package reload

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// listen hears announcements until life ends. The client connects again by
// itself, and each time listening begins everything is looked at, because
// Redis forgets whoever was not there.
func (r *Reloader) listen(life context.Context) {
	subscription := r.config.Redis.Subscribe(life, r.config.Channel)
	defer func() { _ = subscription.Close() }()
	messages := subscription.ChannelWithSubscriptions(redis.WithChannelSize(256))
	for {
		select {
		case <-life.Done():
			return
		case m, ok := <-messages:
			if !ok {
				return
			}
			switch m := m.(type) {
			case *redis.Subscription:
				r.counts.subscribed.Add(1)
				r.hint("")
			case *redis.Message:
				r.receive(m.Payload)
			}
		}
	}
}

// receive acts on one announcement.
func (r *Reloader) receive(payload string) {
	m, what := r.guard.judge(payload, r.config.Channel, time.Now())
	c := &r.counts
	switch what {
	case malformed:
		c.malformed.Add(1)
		_, err := parseMessage(payload)
		r.ignored("malformed", payload, err)
	case unsigned:
		c.unsigned.Add(1)
		r.ignored("unsigned", payload, errors.New("it is not signed with the secret of this gateway"))
	case stale:
		c.stale.Add(1)
	case replayed:
		c.replayed.Add(1)
	case heard:
		id := m.RuleSetID
		if m.FullReload {
			id = ""
		}
		if r.hint(id) {
			c.heard.Add(1)
		} else {
			c.unneeded.Add(1)
		}
	}
}

// ignored logs that a message was not acted upon, once a minute: anyone who can
// write to the channel causes it. The message itself is not shown.
func (r *Reloader) ignored(what, payload string, err error) {
	if ok, suppressed := r.unheard.Allow(time.Now()); ok {
		r.config.Logger.Warn("ignored a message on the reload channel: it is "+what, "channel", r.config.Channel,
			"bytes", len(payload), "error", err, "suppressed", suppressed)
	}
}
