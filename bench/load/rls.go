package load

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"
)

const (
	callers     = 32
	connections = 2 // Envoy has one for each of its threads
	keys        = 100_000
	maxOpen     = 500 // calls of a connection; FluxGate allows 1,000
)

// Plenty are limits that no caller reaches.
const Plenty = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 1000000}
  - key: route
    value: /orders
    descriptors:
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 1000000}
  - key: daily
    rate_limit: {unit: day, requests_per_unit: 1000000}
`

// Calls are encoded calls of all users with so many descriptors.
type Calls struct {
	descriptors int
	messages    [][]byte
}

// NewCalls encodes calls.
func NewCalls(tb testing.TB, descriptors int) *Calls {
	tb.Helper()
	c := &Calls{descriptors, make([][]byte, keys)}
	for i := range c.messages {
		user := fmt.Sprintf("user-%d", i)
		r := &pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{
			Descriptor("user=" + user), Descriptor("route=/orders,user=" + user), Descriptor("daily=" + user),
		}[:descriptors]}
		message, err := proto.Marshal(r)
		if err != nil {
			tb.Fatal(err)
		}
		c.messages[i] = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	}
	return c
}

// Descriptor returns a descriptor such as path=/login,user=ada.
func Descriptor(text string) *ratelimit.RateLimitDescriptor {
	d := &ratelimit.RateLimitDescriptor{}
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	return d
}

// Calling returns a load of calls: from callers who each wait for their answer, or, with a
// rate, of that many a second whatever is answered. Latencies then count from the moment at
// which a call was due.
func (s *Service) Calling(tb testing.TB, c *Calls, rate float64) Run {
	tb.Helper()
	return func(length time.Duration) Load {
		l := s.measure(tb, c.descriptors, func() Load { return s.call(tb, c, length, rate) })
		tb.Logf("%s, %d descriptors: %v", s.Name, c.descriptors, l)
		return l
	}
}

func (s *Service) call(tb testing.TB, calls *Calls, length time.Duration, rate float64) Load {
	tb.Helper()
	began := time.Now()
	var group errgroup.Group
	var latencies [connections][]time.Duration
	for i := range connections {
		group.Go(func() error {
			c, err := dial(tb.Context(), s.GRPC)
			if err != nil {
				return err
			}
			defer func() { _ = c.net.Close() }()
			if err := c.net.SetDeadline(time.Now().Add(length + patience)); err != nil {
				return err
			}
			turn := i * keys / connections
			next := func() []byte {
				turn = (turn + 7919) % keys
				return calls.messages[turn]
			}
			latencies[i] = make([]time.Duration, 0, 1<<20)
			if rate > 0 {
				return c.pace(next, length, rate/connections, &latencies[i])
			}
			return c.saturate(next, length, callers/connections, &latencies[i])
		})
	}
	if err := group.Wait(); err != nil {
		tb.Fatalf("%s: %v", s.Name, err)
	}
	took := time.Since(began)
	all := slices.Concat(latencies[:]...)
	slices.Sort(all)
	n := len(all)
	return Load{Requests: n, PerSecond: float64(n) / took.Seconds(), P50: all[n/2], P99: all[n*99/100], Far: all[n*999/1000]}
}

// saturate has callers of one connection send a call when the last one is answered.
func (c *connection) saturate(next func() []byte, length time.Duration, callers int, latencies *[]time.Duration) error {
	now := time.Now()
	end := now.Add(length)
	for range callers {
		if err := c.send(next(), now); err != nil {
			return err
		}
	}
	for c.open > 0 {
		if c.reader.Buffered() == 0 {
			if err := c.flush(); err != nil {
				return err
			}
		}
		began, err := c.receive()
		if err != nil {
			return err
		}
		now := time.Now()
		*latencies = append(*latencies, now.Sub(began))
		if now.Before(end) {
			if err := c.send(next(), now); err != nil {
				return err
			}
		}
	}
	return nil
}

// pace sends so many calls a second.
func (c *connection) pace(next func() []byte, length time.Duration, rate float64, latencies *[]time.Duration) error {
	calls := int(rate * length.Seconds())
	var group errgroup.Group
	group.Go(func() error {
		start := time.Now()
		for n := range calls {
			due := start.Add(time.Duration(float64(n) / rate * float64(time.Second)))
			for wait := time.Until(due); wait > 0 || c.full(); wait = time.Until(due) {
				if err := c.flush(); err != nil {
					return err
				}
				time.Sleep(max(wait, time.Millisecond))
			}
			if err := c.send(next(), due); err != nil {
				return err
			}
		}
		return c.flush()
	})
	group.Go(func() error {
		for range calls {
			began, err := c.receive()
			if err != nil {
				return err
			}
			*latencies = append(*latencies, time.Since(began))
		}
		return nil
	})
	return group.Wait()
}

// full reports whether a call must wait for others.
func (c *connection) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open == maxOpen
}
