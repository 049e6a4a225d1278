package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"time"
)

// The scripts for reports. They are short, and sent every time.
var (
	//go:embed lua/report.lua
	reportScript string
	//go:embed lua/gateways.lua
	gatewaysScript string
	//go:embed lua/reports.lua
	reportsScript string
)

// report is the key of the report of a gateway, in the slot of the record of the gateways.
func (n *names) report(id string) string { return n.prefix + "{" + n.gateways() + "}:" + id }

// ID returns the random id of this gateway in the record of the gateways.
func (s *Store) ID() string { return s.heartbeat.id }

// WriteReport writes a report of this gateway for the others, which is gone after some
// time unless it is written again.
func (s *Store) WriteReport(ctx context.Context, report []byte, lasts time.Duration) error {
	name := s.names.report(s.heartbeat.id)
	err := s.nodes.onMaster(ctx, name, func(ctx context.Context, c commander) error {
		return c.Eval(ctx, reportScript, []string{name}, lasts.Milliseconds(), report).Err()
	})
	if err != nil {
		return fmt.Errorf("writing a report: %w", s.clean(err))
	}
	return nil
}

// Reports returns the reports of all gateways in the record by their ids. Larger ones than
// maxBytes are left out, and so are those of more than 1,000 gateways. What they say is not
// checked.
func (s *Store) Reports(ctx context.Context, maxBytes int) (map[string][]byte, error) {
	record := s.names.gateways()
	reports := map[string][]byte{}
	err := s.nodes.onMaster(ctx, record, func(ctx context.Context, c commander) error {
		ids, err := c.Eval(ctx, gatewaysScript, []string{record}, len(s.heartbeat.id), maxGateways).StringSlice()
		if err != nil || len(ids) == 0 {
			return err
		}
		keys := make([]string, len(ids))
		for i, id := range ids {
			keys[i] = s.names.report(id)
		}
		found, err := c.Eval(ctx, reportsScript, keys, maxBytes).Slice()
		if err != nil {
			return err
		}
		for i, report := range found {
			if text, ok := report.(string); ok && i < len(ids) {
				reports[ids[i]] = []byte(text)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the reports: %w", s.clean(err))
	}
	return reports, nil
}
