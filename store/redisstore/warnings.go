package redisstore

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/store"
)

// warnScript and leadScript are short, and sent every time.
//
//go:embed lua/warn.lua
var warnScript string

//go:embed lua/lead.lua
var leadScript string

const (
	// warningLists is how many lists of warnings a cluster has. A bucket and its list are
	// most likely on the same master.
	warningLists = 16
	maxPending   = 100_000 // in all lists
	maxRecent    = 200
)

// list returns the number of the list of warnings of a bucket. Without a cluster there is one.
func (s *Store) list(id store.KeyID) int {
	return s.names.shard(id) * s.lists() / len(s.names.tags)
}

func (s *Store) lists() int {
	if !s.nodes.cluster {
		return 1
	}
	return min(warningLists, len(s.names.tags))
}

// warnings is a key of a list of warnings.
func (s *Store) warnings(list int, key string) string {
	return s.names.prefix + "{" + s.names.tags[list*len(s.names.tags)/s.lists()] + "}:warnings:" + key
}

// Warn implements [store.Store].
func (s *Store) Warn(ctx context.Context, w *store.Warning) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	own, list := *w, s.list(w.Key.ID)
	mark := own.Identify(s.names.key(&w.Key, s.fleet.generations()))
	text, err := json.Marshal(&own)
	if err != nil {
		return fmt.Errorf("adding a warning: %w", err)
	}
	keys := []string{s.warnings(list, mark), s.warnings(list, "pending"), s.warnings(list, "recent")}
	args := []any{text, own.At, own.Ends, maxPending / s.lists(), maxRecent}
	if now := s.now(); now > 0 {
		args = append(args, now)
	}
	answer, err := onMaster(ctx, s.nodes, keys[0], func(ctx context.Context, c commander) ([]int64, error) {
		return c.Eval(ctx, warnScript, keys, args...).Int64Slice()
	})
	if err == nil && len(answer) != 2 {
		err = errAnswer
	}
	if err != nil {
		return fmt.Errorf("adding a warning: %w", s.clean(err))
	}
	if w.Ends = answer[0]; answer[1] > 0 {
		s.dropped.note(s.log, slog.LevelError, "dropped a warning of a limit, which will not be delivered",
			fmt.Errorf("too many warnings are pending: one of rule %q of rule set %q replaced the oldest", w.Key.Rule, w.Key.RuleSet))
	}
	return nil
}

// PendingWarnings returns warnings that are not delivered, list by list and the oldest of each first: at
// most so many after a place, or the first ones if it is empty.
func (s *Store) PendingWarnings(ctx context.Context, after string, most int) (all []store.Warning, err error) {
	number, id, _ := strings.Cut(after, " ")
	list, _ := strconv.Atoi(number)
	for from := "(" + cmp.Or(id, "0"); err == nil && list < s.lists() && len(all) < most; list++ {
		all, err = s.readWarnings(ctx, all, list, "pending", "xrange", from, "+", most-len(all))
		from = "(0"
	}
	return all, err
}

// RecentWarnings returns the last warnings, the newest first, delivered or not: at most so many,
// and no more than 200.
func (s *Store) RecentWarnings(ctx context.Context, most int) (all []store.Warning, err error) {
	most = min(most, maxRecent)
	for list := 0; err == nil && list < s.lists(); list++ {
		all, err = s.readWarnings(ctx, all, list, "recent", "xrevrange", "+", "-", most)
	}
	slices.SortStableFunc(all, func(a, b store.Warning) int { return cmp.Compare(b.At, a.At) })
	return all[:min(most, len(all))], err
}

// readWarnings appends warnings of a list. What is no warning is removed.
func (s *Store) readWarnings(
	ctx context.Context, all []store.Warning, list int, key, command, from, to string, most int,
) ([]store.Warning, error) {
	name := s.warnings(list, key)
	found, err := onMaster(ctx, s.nodes, name, func(ctx context.Context, c commander) ([]redis.XMessage, error) {
		read := redis.NewXMessageSliceCmd(ctx, command, name, from, to, "count", most)
		_ = c.Process(ctx, read) // the command has the error
		return read.Result()
	})
	if err != nil {
		return nil, fmt.Errorf("reading the warnings: %w", s.clean(err))
	}
	for _, entry := range found {
		w := store.Warning{Place: strconv.Itoa(list) + " " + entry.ID}
		text, _ := entry.Values["warning"].(string)
		err := json.Unmarshal([]byte(text), &w)
		if err == nil {
			all = append(all, w)
			continue
		}
		s.log.LogAttrs(ctx, slog.LevelError, "removing an unreadable warning from Redis", slog.String("key", name), slog.Any("error", err))
		if err := s.remove(ctx, name, entry.ID); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// DeliveredWarning removes a warning from those that are pending.
func (s *Store) DeliveredWarning(ctx context.Context, w *store.Warning) error {
	number, id, _ := strings.Cut(w.Place, " ")
	list, err := strconv.Atoi(number)
	if err != nil || list < 0 || list >= s.lists() {
		return fmt.Errorf("removing a warning: no list has the place %q", w.Place)
	}
	return s.remove(ctx, s.warnings(list, "pending"), id)
}

// remove removes an entry of a list of warnings.
func (s *Store) remove(ctx context.Context, list, id string) error {
	_, err := onMaster(ctx, s.nodes, list, func(ctx context.Context, c commander) (int64, error) { return c.XDel(ctx, list, id).Result() })
	if err != nil {
		return fmt.Errorf("removing a warning: %w", s.clean(err))
	}
	return nil
}

// LeadWarnings reports whether this process delivers the warnings, and goes on to do so for
// a time. While it calls again in that time no other process does.
func (s *Store) LeadWarnings(ctx context.Context, lasts time.Duration) (leads bool, err error) {
	name := s.names.prefix + "warner"
	leads, err = onMaster(ctx, s.nodes, name, func(ctx context.Context, c commander) (bool, error) {
		return c.Eval(ctx, leadScript, []string{name}, s.heartbeat.id, max(1, lasts.Milliseconds())).Bool()
	})
	if err != nil {
		return false, fmt.Errorf("claiming the delivery of warnings: %w", s.clean(err))
	}
	return leads, nil
}
