package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// gatewaysScript is short, and sent every time. The reports themselves do not go through
// scripts, where a long string costs ten times as much.
//
//go:embed lua/gateways.lua
var gatewaysScript string

// report is the key of the report of a gateway, in the slot of the record of the gateways.
func (n *names) report(id string) string { return n.prefix + "{" + n.gateways() + "}:" + id }

// ID returns the random id of this process in the fleet state.
func (s *Store) ID() string { return s.heartbeat.id }

// WriteReport writes a report of this process for the others. It expires unless it is
// written again.
func (s *Store) WriteReport(ctx context.Context, report []byte, lasts time.Duration) error {
	name := s.names.report(s.heartbeat.id)
	_, err := onMaster(ctx, s.nodes, name, func(ctx context.Context, c commander) (any, error) {
		return nil, c.Process(ctx, redis.NewStatusCmd(ctx, "psetex", name, lasts.Milliseconds(), report))
	})
	if err != nil {
		return fmt.Errorf("writing a report: %w", s.clean(err))
	}
	return nil
}

// Leave removes this process from the fleet: it is no longer counted, and not lost when it ends.
func (s *Store) Leave(ctx context.Context) error {
	s.heartbeat.left.Store(true)
	record := s.names.gateways()
	_, err := onMaster(ctx, s.nodes, record, func(ctx context.Context, c commander) (any, error) {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error { // one slot
			p.HDel(ctx, record, s.heartbeat.id)
			p.Del(ctx, s.names.report(s.heartbeat.id))
			return nil
		})
		return nil, err
	})
	if err != nil {
		return fmt.Errorf("leaving the fleet: %w", s.clean(err))
	}
	return nil
}

// Reports returns the reports of all live processes in the fleet state by their ids, of at most
// 1,000 processes. Reports larger than maxBytes are left out. Their content is not
// checked.
func (s *Store) Reports(ctx context.Context, maxBytes int) (map[string][]byte, error) {
	found, err := s.reports(ctx, maxBytes, false)
	reports := map[string][]byte{}
	for id, r := range found {
		reports[id] = r.Content
	}
	return reports, err
}

// LostReport is the last report of a process that was lost.
type LostReport struct {
	Content []byte
	// Since is how long ago it was lost, by the server's clock: its last heartbeat had ended.
	Since time.Duration
}

// LostReports returns the last reports, as far as they are kept, of processes whose heartbeats
// have ended in the last [LostShown] without [Store.Leave], of at most 100.
func (s *Store) LostReports(ctx context.Context, maxBytes int) (map[string]LostReport, error) {
	return s.reports(ctx, maxBytes, true)
}

func (s *Store) reports(ctx context.Context, maxBytes int, lost bool) (map[string]LostReport, error) {
	record, which := s.names.gateways(), 0
	if lost {
		which = 1
	}
	reports, err := onMaster(ctx, s.nodes, record, func(ctx context.Context, c commander) (map[string]LostReport, error) {
		reports := map[string]LostReport{}
		ids, err := c.Eval(ctx, gatewaysScript, []string{record}, len(s.heartbeat.id), maxGateways, which).StringSlice()
		if err != nil || len(ids) < 2 {
			return reports, err
		}
		found, _ := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := 0; i < len(ids); i += 2 {
				p.GetRange(ctx, s.names.report(ids[i]), 0, int64(maxBytes)) // one byte more than allowed
			}
			return nil
		}) // each command has its error
		for i, cmd := range found {
			text, err := cmd.(*redis.StringCmd).Result()
			switch {
			case redis.HasErrorPrefix(err, "WRONGTYPE"): // not ours
			case err != nil:
				return nil, err
			case text != "" && len(text) <= maxBytes:
				ago, _ := strconv.ParseInt(ids[2*i+1], 10, 64)
				reports[ids[2*i]] = LostReport{Content: []byte(text), Since: time.Duration(ago) * time.Millisecond}
			}
		}
		return reports, nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the reports: %w", s.clean(err))
	}
	return reports, nil
}
