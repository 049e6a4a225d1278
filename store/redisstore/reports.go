package redisstore

import (
	"context"
	_ "embed"
	"fmt"
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

// Reports returns the reports of all processes in the fleet state by their ids, of at most
// 1,000 processes. Reports larger than maxBytes are left out. Their content is not
// checked.
func (s *Store) Reports(ctx context.Context, maxBytes int) (map[string][]byte, error) {
	record := s.names.gateways()
	reports, err := onMaster(ctx, s.nodes, record, func(ctx context.Context, c commander) (map[string][]byte, error) {
		reports := map[string][]byte{}
		ids, err := c.Eval(ctx, gatewaysScript, []string{record}, len(s.heartbeat.id), maxGateways).StringSlice()
		if err != nil || len(ids) == 0 {
			return reports, err
		}
		found, _ := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, id := range ids {
				p.GetRange(ctx, s.names.report(id), 0, int64(maxBytes)) // one byte more than allowed
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
				reports[ids[i]] = []byte(text)
			}
		}
		return reports, nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the reports: %w", s.clean(err))
	}
	return reports, nil
}
