package reload

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/rules"
)

// AnnounceConfig configures [Announcing]. Its zero value works.
type AnnounceConfig struct {
	// Channel empty means DefaultChannel.
	Channel string
	// Source names the announcing program, for people who read the messages.
	Source string
	// Logger gets a line for each change that could not be announced. Nil means slog.Default().
	Logger *slog.Logger
}

// Announcing returns an editor that announces its changes in Redis to all processes that use the
// rules, and those that may have been made although their answer was lost. A failed announcement
// does not undo the change: others find it by polling. Without a client nothing is announced. It
// does not close the client.
func Announcing(editor rules.Editor, client redis.UniversalClient, config AnnounceConfig) rules.Editor {
	if client == nil {
		return editor
	}
	config.Channel, config.Logger = cmp.Or(config.Channel, DefaultChannel), cmp.Or(config.Logger, slog.Default())
	a := &announcing{editor, announcer{client, config}}
	if overrides, ok := editor.(rules.OverrideEditor); ok {
		return &struct {
			*announcing
			*announcingOverrides
		}{a, &announcingOverrides{overrides, a.announcer}}
	}
	return a
}

// AnnouncingOverrides is [Announcing] for overrides whose rules come from a read-only source.
func AnnouncingOverrides(editor rules.OverrideEditor, client redis.UniversalClient, config AnnounceConfig) rules.OverrideEditor {
	if client == nil {
		return editor
	}
	config.Channel, config.Logger = cmp.Or(config.Channel, DefaultChannel), cmp.Or(config.Logger, slog.Default())
	return &announcingOverrides{editor, announcer{client, config}}
}

// announcer announces changes.
type announcer struct {
	client redis.UniversalClient
	config AnnounceConfig
}

// announce announces a change that is made, even if the caller is gone. Servers that miss it find
// it by polling.
func (a *announcer) announce(ctx context.Context, id string, revision int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	text, err := json.Marshal(message{RuleSetID: id, Revision: revision, Source: a.config.Source, Timestamp: time.Now().UnixMilli()})
	if err == nil {
		err = a.client.Publish(ctx, a.config.Channel, text).Err()
	}
	if err != nil {
		a.config.Logger.Warn("cannot announce a change; servers find it by polling", "ruleSet", id, "revision", revision, "error", err)
	}
}

type announcing struct {
	rules.Editor
	announcer
}

// mayBeMade reports whether a change may have been made. Only a source that answered has refused
// it: after any other error an announcement costs the others one small read.
func mayBeMade(err error) bool {
	return !errors.As(err, new(*rules.ConflictError)) && !errors.As(err, new(*rules.ValidationError)) &&
		!errors.As(err, new(*rules.OverrideConflictError)) && !errors.Is(err, rules.ErrNotFound) &&
		!errors.Is(err, rules.ErrTooLarge) && !errors.Is(err, rules.ErrTooManyOverrides)
}

// Put implements [rules.Editor].
func (a *announcing) Put(ctx context.Context, set *rules.Set, change rules.Change) (int64, error) {
	revision, err := a.Editor.Put(ctx, set, change)
	if mayBeMade(err) {
		a.announce(ctx, set.ID(), revision)
	}
	return revision, err
}

// Delete implements [rules.Editor].
func (a *announcing) Delete(ctx context.Context, id string, change rules.Change) (int64, error) {
	revision, err := a.Editor.Delete(ctx, id, change)
	if mayBeMade(err) {
		a.announce(ctx, id, revision)
	}
	return revision, err
}

// announcingOverrides announces changes of overrides.
type announcingOverrides struct {
	rules.OverrideEditor
	announcer announcer
}

// PutOverrides implements [rules.OverrideEditor].
func (a *announcingOverrides) PutOverrides(ctx context.Context, ruleSet string, changes []rules.Override) (int64, error) {
	revision, err := a.OverrideEditor.PutOverrides(ctx, ruleSet, changes)
	if mayBeMade(err) {
		a.announcer.announce(ctx, ruleSet, 0)
	}
	return revision, err
}
