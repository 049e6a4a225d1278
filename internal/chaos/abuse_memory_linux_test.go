package chaos

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

const (
	// maxPeak is the most resident memory of an attacked server in MiB, of 512 that it may use.
	maxPeak = 400
	// attackTime bounds an attack.
	attackTime = 5 * time.Second

	envoyMethod = pb.RateLimitService_ShouldRateLimit_FullMethodName
)

// attacked is a server with an attacker and with honest callers.
type attacked struct {
	*Daemon
	grpc string
}

func startAttacked(t *testing.T) *attacked {
	t.Helper()
	t.Setenv("GOMEMLIMIT", strconv.Itoa(512<<20/10*7)) // as in a container with 512 MiB
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(`id: `+ruleSetID+`
rules:
  - {id: per-key, limitScope: API_KEY, bands: [{capacity: 1000000, refill: 1s}]}
  - {id: held, path: /held, limitScope: API_KEY, onLimitExceed: WAIT_FOR_REFILL, bands: [{capacity: 1, refill: 10m}]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	a := &attacked{grpc: testenv.FreeAddr(t)}
	set := []string{"server.grpc=" + a.grpc, "rules.file=" + file, "mongo.enabled=false", inMemory,
		"wait-for-refill.enabled=true", "wait-for-refill.max-wait-time=20m", "server.timeouts.write=30m"}
	a.Daemon = StartDaemon(t, "", set...)
	return a
}

// peak is the most resident memory that the server has had, in MiB.
func (a *attacked) peak(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes >> 10
}

// honest is a caller that asks once in every way until the context ends.
func (a *attacked) honest(ctx context.Context, t *testing.T) (slowest time.Duration, answers int) {
	t.Helper()
	conn, err := grpc.NewClient(a.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Error(err)
		return 0, 0
	}
	defer func() { _ = conn.Close() }()
	asked := &pb.RateLimitRequest{Domain: ruleSetID, Descriptors: []*ratelimit.RateLimitDescriptor{{
		Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: strings.Repeat("x", 20<<10)}},
	}}}
	large := `{"apiKey":"ann","path":"/orders","headers":{"X-Large":["` + strings.Repeat("x", 20<<10) + `"]}}`
	for ctx.Err() == nil {
		for way, send := range map[string]func(ctx context.Context) error{
			"check":       func(ctx context.Context) error { return a.Send(ctx, 0, "ann").Err },
			"batch":       func(ctx context.Context) error { return a.post(ctx, "/v1/check:batch", smallBatch, &struct{}{}) },
			"large check": func(ctx context.Context) error { return a.post(ctx, "/v1/check", large, &struct{}{}) },
			"Envoy": func(ctx context.Context) error {
				_, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, asked)
				return err
			},
			"health": func(ctx context.Context) error {
				_, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
				return err
			},
		} {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			start := time.Now()
			err := send(ctx)
			slowest, answers = max(slowest, time.Since(start)), answers+1
			cancel()
			if err != nil {
				t.Errorf("an honest caller (%s) gets %v", way, err)
				return slowest, answers
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return slowest, answers
}

// attack runs until its context ends, or it has done what it wants.
type attack func(ctx context.Context, t *testing.T, a *attacked)

// Attacks of a client without credentials neither fill the memory nor keep others from
// their answers.
func TestAbuse_Memory(t *testing.T) {
	testenv.SkipShort(t)
	for name, c := range map[string]struct {
		attack attack
		peak   int // MiB
	}{
		"resets of streams":          {resets, 150},
		"unfinished health checks":   {unfinishedCalls(healthpb.Health_Check_FullMethodName, 16<<10), maxPeak},
		"unfinished watches":         {unfinishedCalls(healthpb.Health_Watch_FullMethodName, 16<<10), maxPeak},
		"unfinished calls of Envoy":  {unfinishedCalls(envoyMethod, 16<<10), maxPeak},
		"frames that fill no buffer": {unfinishedCalls(envoyMethod, 4<<10+1), maxPeak},
		"calls without a message":    {manyCalls(40, healthpb.Health_Check_FullMethodName, 0, false), maxPeak},
		"many fields, no message":    {manyCalls(40, envoyMethod, 400, false), maxPeak},
		"answers that are not read":  {manyCalls(120, healthpb.Health_Check_FullMethodName, 0, true), maxPeak},
		"some fields, not read":      {manyCalls(60, healthpb.Health_Check_FullMethodName, 50, true), maxPeak},
		"many fields, not read":      {manyCalls(40, healthpb.Health_Check_FullMethodName, 400, true), maxPeak},
		"batches of empty requests":  {batches(strings.Repeat("{},", 349_000) + "{}"), maxPeak},
		"batches of many fields":     {batches(manyFields()), maxPeak},
		"batches that are not read":  {unreadBatches, 300},
		"large checks that wait":     {waitingChecks, maxPeak},
		"watches":                    {watches, maxPeak},
	} {
		t.Run(name, func(t *testing.T) {
			a := startAttacked(t)
			before := a.peak(t)
			ctx, cancel := context.WithTimeout(t.Context(), attackTime)
			defer cancel()
			var attacking sync.WaitGroup
			attacking.Go(func() {
				defer cancel()
				c.attack(ctx, t, a)
			})
			slowest, answers := a.honest(ctx, t)
			attacking.Wait()
			peak := a.peak(t)
			t.Logf("%d MiB, then at most %d; %d honest calls, the slowest took %v", before, peak, answers, slowest.Round(time.Millisecond))
			if peak > c.peak {
				t.Errorf("the server took %d MiB, want at most %d", peak, c.peak)
			}
			if err := a.verify(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// resets begins 100,000 streams and resets each at once.
func resets(ctx context.Context, t *testing.T, a *attacked) {
	t.Helper()
	c, block := dialHTTP2(t, a.grpc), call(envoyMethod, "x-large", strings.Repeat("|", 8<<10))
	done := 0
	for err := error(nil); done < 100_000 && ctx.Err() == nil && err == nil; done++ {
		var stream uint32
		if stream, err = c.open(block); err == nil {
			err = c.framer.WriteRSTStream(stream, http2.ErrCodeCancel)
		}
	}
	t.Logf("%d resets", done)
}

// unfinishedCalls has calls with all but the end of their message, in frames of a size.
func unfinishedCalls(method string, size int) attack {
	return func(ctx context.Context, t *testing.T, a *attacked) {
		t.Helper()
		block, message := call(method), unfinished(1<<20)
		var sent, streams atomic.Int64
		var attacking sync.WaitGroup
		for range 4 {
			c := dialHTTP2(t, a.grpc)
			attacking.Go(func() {
				var open [900]struct {
					stream uint32
					sent   int
				}
				for ctx.Err() == nil {
					for i := range open {
						o := &open[i]
						if o.stream == 0 || c.hasEnded(o.stream) {
							o.stream, _ = c.open(block)
							o.sent = 0
							streams.Add(1)
						}
						n, err := c.send(ctx, o.stream, message[o.sent:], size)
						if o.sent += n; err != nil {
							return
						}
						sent.Add(int64(n))
					}
					_ = c.out.Flush()
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		attacking.Wait()
		t.Logf("%d MiB in %d calls", sent.Load()>>20, streams.Load())
	}
}

// manyCalls has calls with so many header fields on many connections. They have no message, or
// one whose answer is not read.
func manyCalls(connections int, method string, fields int, complete bool) attack {
	more := make([]string, 2*fields)
	for i := range fields {
		more[2*i], more[2*i+1] = fmt.Sprintf("x-%d", i%100), "1"
	}
	return func(ctx context.Context, t *testing.T, a *attacked) {
		t.Helper()
		block := call(method, more...)
		var calls atomic.Int64
		reconnecting(ctx, a.grpc, connections, func(conn net.Conn) {
			c, err := newHTTP2(conn, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			var open [900]uint32
			for ctx.Err() == nil && err == nil {
				for i := range open {
					if open[i] != 0 && !c.hasEnded(open[i]) {
						continue
					}
					calls.Add(1)
					if open[i], err = c.open(block); err == nil && complete {
						err = c.framer.WriteData(open[i], true, make([]byte, 5))
					}
				}
				if err == nil {
					err = c.out.Flush()
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
		t.Logf("%d calls", calls.Load())
	}
}

// elsewhere is a client with another address than the honest callers.
func elsewhere(t *testing.T) *http.Client {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	transport := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 100}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// batches sends 16 batches at a time.
func batches(requests string) attack {
	return func(ctx context.Context, t *testing.T, a *attacked) {
		t.Helper()
		client, body := elsewhere(t), `{"requests":[`+requests+`]}`
		var mu sync.Mutex
		statuses := map[int]int{}
		var attacking sync.WaitGroup
		for range 16 {
			attacking.Go(func() {
				for ctx.Err() == nil {
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+a.Addr+"/v1/check:batch", strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					status, _, err := exchange(client, req)
					mu.Lock()
					if err == nil {
						statuses[status]++
					}
					mu.Unlock()
				}
			})
		}
		attacking.Wait()
		t.Logf("batches of %d bytes: %v", len(body), statuses)
	}
}

// manyFields is a megabyte of requests whose fields take more memory than their text.
func manyFields() string {
	var fields, requests strings.Builder
	for i := range 3_900 {
		fmt.Fprintf(&fields, `"%x":[""],`, i)
	}
	for i := range 15 {
		fmt.Fprintf(&requests, `{"headers":{%s"x":[]},"apiKey":"%d"},`, fields.String(), i)
	}
	return requests.String() + "{}"
}

// waitingChecks has 80 checks of 60 KiB that a rule holds, from the address of the honest callers.
func waitingChecks(ctx context.Context, t *testing.T, a *attacked) {
	t.Helper()
	var attacking sync.WaitGroup
	for i := range 80 {
		body := fmt.Sprintf(`{"apiKey":"held-%d","path":"/held","headers":{"X-Large":[%q]}}`, i, strings.Repeat("x", 60<<10))
		attacking.Go(func() {
			for ctx.Err() == nil {
				_ = a.post(ctx, "/v1/check", body, &struct{}{}) // the first is answered, the second waits
			}
		})
	}
	most := 0.0
	for ctx.Err() == nil {
		if series, err := a.metrics(ctx); err == nil {
			most = max(most, series["fluxgate_waiting"])
		}
		time.Sleep(100 * time.Millisecond)
	}
	attacking.Wait()
	if most <= 16 {
		t.Errorf("%v checks wait", most)
	}
}

// watches begins 1,000 streams of health on 10 connections, which the server does not have.
func watches(ctx context.Context, t *testing.T, a *attacked) {
	t.Helper()
	for range 10 {
		conn, err := grpc.NewClient(a.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
		for range 100 {
			stream, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{})
			if err == nil {
				_, _ = stream.Recv() // refused
			}
		}
	}
	<-ctx.Done()
}
