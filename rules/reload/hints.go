package reload

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/redissub"
	"github.com/fluxgate/fluxgate/rules"
)

// hint schedules a refresh of a rule set, or with "" of all. It reports whether
// the rule set is in use here.
func (r *Reloader) hint(id string) bool {
	if id != "" && r.sets.get(id) == nil {
		return false
	}
	r.hints.Add(id)
	return true
}

// hinted returns the rule sets with hints since the last call.
func (r *Reloader) hinted() (sets []*ruleSet) {
	for _, id := range r.hints.Take() {
		if id == "" {
			return r.sets.all()
		}
		if s := r.sets.get(id); s != nil {
			sets = append(sets, s)
		}
	}
	return sets
}

// watch receives hints from a source that detects changes itself.
func (r *Reloader) watch(ctx context.Context, source rules.Watcher) {
	watch := func() (err error) {
		defer recoverSource(&err)
		return source.Watch(ctx, func(id string) { r.hint(id) })
	}
	for {
		err := watch()
		if ctx.Err() != nil {
			return
		}
		r.config.Logger.Error("the rule source stopped watching for changes; trying again", "error", err)
		_ = background.Sleep(ctx, r.config.Interval)
		r.hint("") // changes may have been missed
	}
}

// Silence returns why announcements cannot be received, such as a Redis user without the right
// to the channel. Changes are then found by polling. It is nil if they can, at the start, and if
// the strategy does not use them.
func (r *Reloader) Silence() error {
	if why := r.silence.Load(); why != nil {
		return *why
	}
	return nil
}

// Pauses between attempts to subscribe, about.
const minPause, maxPause = 100 * time.Millisecond, 500 * time.Millisecond

// listen receives hints from announcements. After each subscription everything is
// refreshed, because Redis does not deliver earlier announcements.
func (r *Reloader) listen(ctx context.Context) {
	pause := minPause
	subscribed := func() {
		pause = minPause
		r.silence.Store(nil)
		r.counts.add(&r.counts.Subscribed)
		r.hint("")
	}
	channel := redissub.Channel{Client: r.config.Redis, Name: r.config.Channel, Subscribed: subscribed, Message: r.announced}
	for {
		err := channel.Receive(ctx)
		if ctx.Err() != nil {
			return
		}
		r.silence.Store(&err)
		r.unheard.Log(context.Background(), r.config.Logger, slog.LevelWarn,
			"cannot receive announcements of rule changes; polling, and subscribing again",
			"channel", r.config.Channel, "interval", r.config.Interval, "error", err)
		if cluster, ok := r.config.Redis.(*redis.ClusterClient); ok {
			cluster.ReloadState(ctx) // the node may not be a master any more
		}
		_ = background.Sleep(ctx, pause/2+upTo(pause))
		pause = min(2*pause, maxPause)
	}
}

// announced handles one announcement. A malformed one is logged once a minute,
// because any client that can publish can cause it, and without its content.
func (r *Reloader) announced(payload string) {
	m, err := parseMessage(payload)
	count := &r.counts.Messages.Heard
	if err != nil {
		count = &r.counts.Messages.Malformed
		r.malformed.Log(context.Background(), r.config.Logger, slog.LevelWarn,
			"ignored a malformed message on the reload channel", "channel", r.config.Channel, "bytes", len(payload), "error", err)
	} else if !r.hint(m.RuleSetID) {
		count = &r.counts.Messages.Unneeded
	}
	r.counts.add(count)
}

// message is an announcement in Redis. The reloader uses only its rule set: the
// source has the revision.
type message struct {
	RuleSetID  string `json:"ruleSetId,omitempty"` // empty for all
	FullReload bool   `json:"fullReload"`
	Revision   int64  `json:"revision,omitempty"`
	Timestamp  int64  `json:"timestamp"` // milliseconds since 1970
	Source     string `json:"source,omitempty"`
}

// parseMessage parses an announcement: an object, which may have unknown fields,
// or the formats of other clients: the bare id of a rule set, or * for all.
func parseMessage(payload string) (m message, err error) {
	const most = 4 << 10 // bytes, more than FluxGate writes
	switch plain := strings.TrimSpace(payload); {
	case len(payload) > most:
		return m, errors.New("too long")
	case plain == "*":
		m.FullReload = true
	case rules.ValidID(plain):
		m.RuleSetID = plain
	default:
		err = json.Unmarshal([]byte(payload), &m)
	}
	if m.FullReload {
		m.RuleSetID = ""
	} else if err == nil && !rules.ValidID(m.RuleSetID) {
		err = errors.New("neither a rule set nor a full reload")
	}
	return m, err
}
