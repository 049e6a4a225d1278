package xdsrules

import (
	"context"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/internal/testenv/xdsserver"
	"github.com/fluxgate/fluxgate/rules"
)

// open returns a source that connects again quickly, and its log.
func open(t testing.TB, c Config) (*Source, *testenv.LogBuffer) {
	t.Helper()
	log := new(testenv.LogBuffer)
	c.Logger, c.NodeID = log.Logger(), xdsserver.Node
	if c.pause == nil {
		c.pause = func(ctx context.Context, _ time.Duration) error { return background.Sleep(ctx, 5*time.Millisecond) }
	}
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, log
}

// limit is a configuration of one domain: so many an hour for each client.
func limit(domain string, hourly uint32) *pb.RateLimitConfig {
	return &pb.RateLimitConfig{Name: domain, Domain: domain, Descriptors: []*pb.RateLimitDescriptor{{
		Key: "client", RateLimit: &pb.RateLimitPolicy{Unit: pb.RateLimitUnit_HOUR, RequestsPerUnit: hourly},
	}}}
}

// capacity is the limit of a domain, 0 if it has none.
func capacity(t testing.TB, s *Source, domain string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v, err := s.Load(ctx, domain)
	if err != nil {
		return 0
	}
	for r := range v.RuleSet.Rules() {
		return r.Bands[0].Capacity
	}
	return 0
}

func wantCapacity(t testing.TB, s *Source, domain string, want int64) {
	t.Helper()
	if got := capacity(t, s, domain); got != want {
		t.Errorf("domain %s has the limit %d, want %d (error %v)", domain, got, want, s.Err())
	}
}

func head(t testing.TB, s *Source, id string) (rules.Head, bool) {
	t.Helper()
	heads, err := s.Revisions(t.Context(), []string{id})
	if err != nil {
		t.Fatal(err)
	}
	h, known := heads[id]
	return h, known
}
