package envoy_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
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

// plenty are limits that no caller reaches.
const plenty = `
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

// workload is calls of all users with so many descriptors, as they are sent.
type workload struct {
	descriptors int
	calls       [][]byte
}

func newWorkload(t *testing.T, descriptors int) *workload {
	t.Helper()
	w := &workload{descriptors, make([][]byte, keys)}
	for i := range w.calls {
		user := fmt.Sprintf("user-%d", i)
		r := &pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{
			parse("user=" + user), parse("route=/orders,user=" + user), parse("daily=" + user),
		}[:descriptors]}
		message, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		w.calls[i] = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	}
	return w
}

// load is what a service did.
type load struct {
	perSecond float64
	p50, p999 time.Duration
	cpu       time.Duration // of the service for each call
	redis     time.Duration // the same of Redis
	client    time.Duration // and of the callers
}

func (l load) String() string {
	return fmt.Sprintf("%.0f/s p50 %v p999 %v cpu %v redis %v callers %v", l.perSecond, l.p50, l.p999, l.cpu, l.redis, l.client)
}

// run sends calls for a while: from callers who each wait for their answer, or, with a
// rate, at that many a second whatever is answered. Latencies then count from the moment
// at which a call was due.
func (s *service) run(t *testing.T, w *workload, length time.Duration, rate float64) load {
	t.Helper()
	before := s.counted(t)
	cpu, redis, client := cpuTime(t, s.Pid()), cpuTime(t, s.redis.Pid()), cpuTime(t, os.Getpid())
	began := time.Now()
	var group errgroup.Group
	var latencies [connections][]time.Duration
	for i := range connections {
		group.Go(func() error {
			c, err := dial(t.Context(), s.GRPC)
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
				return w.calls[turn]
			}
			latencies[i] = make([]time.Duration, 0, 1<<20)
			if rate > 0 {
				return c.pace(next, length, rate/connections, &latencies[i])
			}
			return c.saturate(next, length, callers/connections, &latencies[i])
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	took := time.Since(began)
	all := slices.Concat(latencies[:]...)
	if counted := s.counted(t) - before; counted < len(all)*w.descriptors {
		t.Fatalf("%s: %d calls were counted %d times by %d limits", s.name, len(all), counted, w.descriptors)
	}
	slices.Sort(all)
	n := time.Duration(len(all))
	return load{
		perSecond: float64(n) / took.Seconds(), p50: all[n/2], p999: all[n*999/1000],
		cpu: (cpuTime(t, s.Pid()) - cpu) / n, redis: (cpuTime(t, s.redis.Pid()) - redis) / n, client: (cpuTime(t, os.Getpid()) - client) / n,
	}
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

// counted is how often Redis has counted a call for a limit.
func (s *service) counted(t *testing.T) (calls int) {
	t.Helper()
	stats, err := s.redis.Info(t.Context(), "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	if line := stats["cmdstat_"+s.counts]; line != "" {
		if _, err := fmt.Sscanf(line, "calls=%d,", &calls); err != nil {
			t.Fatal(err)
		}
	}
	return calls
}

// cpuTime is the processor time of a process in user and system mode.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may have spaces
	fields := strings.Fields(rest)
	var ticks int
	for _, i := range []int{14, 15} { // their numbers in proc(5), where ) ends field 2
		n, err := strconv.Atoi(fields[i-3])
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
