package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/store"
)

// heartbeatScript is short, and sent every time.
//
//go:embed lua/heartbeat.lua
var heartbeatScript string

const (
	// maxGateways bounds the record of the gateways.
	maxGateways = 1_000
	// beatsMissed is how many heartbeats a gateway may miss.
	beatsMissed = 3
	// LostShown is how long a process that ended without [Store.Leave] is in [Store.LostReports].
	LostShown = 15 * time.Minute
	// fewGateways write a heartbeat at every refresh of the fleet state. More of
	// them write fewer, so that Redis has the same work: each one reads the
	// whole record.
	fewGateways = 100
)

// heartbeat writes this gateway into the record of the gateways, and counts
// them.
type heartbeat struct {
	store *Store
	id    string // random, of this store
	skip  int    // refreshes until the next one
	// recent are the last counts. The largest is used: after an outage the
	// entries of the other gateways are gone until they have written again.
	recent  [beatsMissed]int
	shifted time.Time // when the first of them was begun
	count   atomic.Int64
	left    atomic.Bool // see [Store.Leave]
	failed  *logthrottle.Throttle
}

func newHeartbeat(s *Store) *heartbeat {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return &heartbeat{store: s, id: hex.EncodeToString(id[:]), failed: logthrottle.New(time.Minute)}
}

// Gateways implements [store.Store]. It does not change while Redis
// does not answer. It is at least 1.
func (s *Store) Gateways() int { return max(1, cmp.Or(s.Counted(), s.config.Gateways)) }

// Counted returns the number of processes at the last count in Redis. It is 0 before
// the first count.
func (s *Store) Counted() int { return int(s.heartbeat.count.Load()) }

// gateways is the key of the record of the gateways.
func (n *names) gateways() string { return n.prefix + "gateways" }

// send writes a heartbeat, if it is time for one.
func (h *heartbeat) send(ctx context.Context) {
	s := h.store
	if h.left.Load() {
		return
	}
	if h.skip > 0 {
		h.skip--
		return
	}
	skip := s.Gateways() / fewGateways
	lasts := time.Duration(beatsMissed*(skip+1)) * s.config.Refresh
	most := maxGateways
	if s.config.Uncounted {
		most = 0 // nothing is added
	}
	name := s.names.gateways()
	count, err := onMaster(ctx, s.nodes, name, func(ctx context.Context, c commander) (int, error) {
		return c.Eval(ctx, heartbeatScript, []string{name}, h.id, lasts.Milliseconds(), most, LostShown.Milliseconds()).Int()
	})
	if s.work.Context().Err() != nil {
		return // the store is closed
	}
	if countsAsFailure(err) || errors.Is(err, store.ErrNotSent) {
		return // the breaker logs it
	}
	if err != nil {
		h.failed.Log(context.Background(), s.log, slog.LevelWarn,
			"cannot write the heartbeat: the number of processes is not updated", "gateways", s.Gateways(), "error", s.clean(err))
		return
	}
	h.skip = skip
	h.counted(count, time.Now())
}

// counted notes how many gateways Redis has counted. Counts in quick succession,
// as after an outage, are one.
func (h *heartbeat) counted(count int, now time.Time) {
	count = min(max(1, count), maxGateways)
	if now.Sub(h.shifted) < h.store.config.Refresh*9/10 { // a ticker may be early
		count = max(count, h.recent[0])
	} else {
		copy(h.recent[1:], h.recent[:])
		h.shifted = now
	}
	h.recent[0] = count
	h.count.Store(int64(slices.Max(h.recent[:])))
}
