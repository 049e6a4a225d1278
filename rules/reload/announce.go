package reload

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/rules"
)

// Announcer announces changes of rules to all processes that use them.
type Announcer struct {
	client  redis.UniversalClient
	channel string
	source  string
}

// AnnouncerConfig configures an [Announcer]. Its zero value works.
type AnnouncerConfig struct {
	// Channel empty means DefaultChannel.
	Channel string
	// Source names the announcing program, for people who read the messages.
	Source string
}

// NewAnnouncer returns an announcer. It does not close the client.
func NewAnnouncer(client redis.UniversalClient, config AnnouncerConfig) (*Announcer, error) {
	if client == nil {
		return nil, errors.New("creating an announcer: the Redis client is nil")
	}
	return &Announcer{client: client, channel: cmp.Or(config.Channel, DefaultChannel), source: config.Source}, nil
}

// Announce announces a new revision of a rule set.
func (a *Announcer) Announce(ctx context.Context, id string, revision int64) error {
	text, err := json.Marshal(message{RuleSetID: id, Revision: revision, Source: a.source, Timestamp: time.Now().UnixMilli()})
	if err == nil {
		err = a.client.Publish(ctx, a.channel, text).Err()
	}
	if err != nil {
		return fmt.Errorf("announcing a change: %w", err)
	}
	return nil
}

// Announcing returns an editor that announces its changes. A failed announcement
// is logged and does not undo the change: others find it by polling. A nil
// logger means slog.Default().
func Announcing(editor rules.Editor, announcer *Announcer, logger *slog.Logger) rules.Editor {
	a := &announcing{Editor: editor, announcer: announcer, log: cmp.Or(logger, slog.Default())}
	if overrides, ok := editor.(rules.OverrideEditor); ok {
		return &announcingOverrides{a, overrides}
	}
	return a
}

type announcing struct {
	rules.Editor
	announcer *Announcer
	log       *slog.Logger
}

// Put implements [rules.Editor].
func (a *announcing) Put(ctx context.Context, set *rules.Set, change rules.Change) (int64, error) {
	revision, err := a.Editor.Put(ctx, set, change)
	if err == nil {
		a.announce(ctx, set.ID(), revision)
	}
	return revision, err
}

// Delete implements [rules.Editor].
func (a *announcing) Delete(ctx context.Context, id string, change rules.Change) (int64, error) {
	revision, err := a.Editor.Delete(ctx, id, change)
	if err == nil {
		a.announce(ctx, id, revision)
	}
	return revision, err
}

func (a *announcing) announce(ctx context.Context, id string, revision int64) {
	// The change is made, so it is announced even if the caller is gone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := a.announcer.Announce(ctx, id, revision); err != nil {
		a.log.Warn("cannot announce a change; servers find it by polling", "ruleSet", id, "revision", revision, "error", err)
	}
}

// announcingOverrides is an editor that announces changes of overrides too.
type announcingOverrides struct {
	*announcing
	rules.OverrideEditor
}

// PutOverrides implements [rules.OverrideEditor].
func (a *announcingOverrides) PutOverrides(ctx context.Context, ruleSet string, changes []rules.Override) (int64, error) {
	revision, err := a.OverrideEditor.PutOverrides(ctx, ruleSet, changes)
	if err == nil {
		a.announce(ctx, ruleSet, 0)
	}
	return revision, err
}
