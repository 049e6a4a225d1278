package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/server/config"
)

const (
	// countFile has the last count of the servers, beside the copies of rules, whose
	// names end with .rules.json.
	countFile = "servers.json"
	// A lower count is kept on disk once it has lasted for this long: a fleet that
	// stops or restarts has fewer servers for a while. An unchanged count is written as often.
	lowerAfter = 10 * time.Minute
	// countEvery is how often the count is compared with the one on disk.
	countEvery = 2 * time.Second
)

// ServersUnknown is a message for the log and health.
const ServersUnknown = "number of servers unknown: each server applies the whole limit; set redis.expected-servers"

// lastCount is how many servers Redis has counted.
type lastCount struct {
	Servers int       `json:"servers"`
	At      time.Time `json:"at"`
}

// AssumedServers returns how many servers share Redis while it has not counted them, 0 if
// unknown, and the origin of the number: the larger of redis.expected-servers and the last
// count on disk. Either may be outdated. A number that is too large makes shares smaller.
func AssumedServers(c *config.Config) (servers int, from string) {
	last := readCount(c.Rules.Copies)
	if last.Servers > c.Redis.ExpectedServers {
		return last.Servers, "counted on " + last.At.UTC().Format(time.DateTime)
	}
	return c.Redis.ExpectedServers, "redis.expected-servers"
}

// readCount reads the count in a folder. An invalid one is ignored.
func readCount(folder string) (last lastCount) {
	file, err := os.Open(filepath.Join(folder, countFile)) //nolint:gosec // the folder is configured
	if folder == "" || err != nil {
		return last
	}
	defer func() { _ = file.Close() }()
	err = json.NewDecoder(io.LimitReader(file, 1<<10)).Decode(&last)
	if err != nil || last.Servers < 0 || last.Servers > config.MaxServers {
		return lastCount{}
	}
	return last
}

// write replaces the count in a folder.
func (last lastCount) write(folder string) error {
	text, err := json.Marshal(last)
	if err != nil {
		return err
	}
	// Two processes that share the folder must not share the file they write.
	temporary := filepath.Join(folder, fmt.Sprintf(".%s.%d", countFile, os.Getpid()))
	err = os.WriteFile(temporary, text, 0o600)
	if err == nil {
		err = os.Rename(temporary, filepath.Join(folder, countFile))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temporary))
	}
	return err
}

// due reports whether a new count replaces this one. lower is since when counts are lower.
func (last lastCount) due(servers int, now time.Time, lower *time.Time) bool {
	if servers >= last.Servers {
		*lower = time.Time{}
		return servers > last.Servers
	}
	if lower.IsZero() {
		*lower = now
	}
	return servers > 0 && now.Sub(*lower) >= lowerAfter
}

// stale reports whether a count is to be written again, so that its time is that of a recent count.
func (last lastCount) stale(servers int, now time.Time) bool {
	return servers == last.Servers && now.Sub(last.At) >= lowerAfter
}

// KeepCount saves the number of servers on disk until ctx ends.
func KeepCount(ctx context.Context, folder string, counted func() int, log *slog.Logger) {
	last, lower := readCount(folder), time.Time{}
	for ; ctx.Err() == nil; _ = background.Sleep(ctx, countEvery) {
		servers, now := counted(), time.Now()
		if servers == 0 || !last.due(servers, now, &lower) && !last.stale(servers, now) {
			continue
		}
		last = lastCount{Servers: servers, At: now}
		if err := last.write(folder); err != nil { // it is written again when the count changes
			log.Warn("cannot save the number of servers: a start without Redis uses an older number", "folder", folder, "error", err)
		}
	}
}

// SharesByServers reports whether the share of the fallback follows the number of servers.
func SharesByServers(c *config.Config) bool { return c.RateLimit.FallbackShare == config.ShareAuto }
