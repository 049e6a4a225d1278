package reload

import (
	"context"
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

// receive acts on one announcement. One that cannot be read is logged once a
// minute, since any client that can publish causes it, and without its content.
func (r *Reloader) receive(payload string) {
	c := &r.counts
	m, err := parseMessage(payload)
	if err != nil {
		c.malformed.Add(1)
		if ok, suppressed := r.malformed.Allow(time.Now()); ok {
			r.config.Logger.Warn("ignored a malformed message on the reload channel", "channel", r.config.Channel,
				"bytes", len(payload), "error", err, "suppressed", suppressed)
		}
		return
	}
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
