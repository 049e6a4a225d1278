package envoyratelimit_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/envoyrules"
	"github.com/fluxgate/fluxgate/server/rls"
	"github.com/fluxgate/fluxgate/store/memstore"
)

var sequences = flag.Int("sequences", 300, "random sequences of calls on which both programs are compared")

// For random sequences of looks, charges and takes, with several descriptors in a call and over
// the ends of periods, both programs give the same answers, but for the differences of
// [comparison.expected] and [counters.uncount].
func TestCounting(t *testing.T) {
	now := new(clock)
	c := &comparison{T: t, clock: now, original: newOriginalService(t, now), met: map[string]int{}}
	for seed := range uint64(*sequences) {
		c.sequence(seed)
	}
	t.Logf("%d sequences: %v", *sequences, c.met)
	for _, what := range []string{
		"calls", "refused", "over in quota mode", "refused by quota mode", "shadow", "unlimited", "replaced", "limit of 0", "look at a full counter",
		"look at an overdrawn counter", "given back to an overdrawn counter", "above the limit at once", "over beside one that passes", "first of a period",
	} {
		if c.met[what] < *sequences/10 {
			t.Errorf("the random inputs compare too little: %d %s", c.met[what], what)
		}
	}
}

// comparison is both programs.
type comparison struct {
	*testing.T
	*clock
	*rand.Rand
	original *originalService
	ours     pb.RateLimitServiceClient
	domain   string
	text     []byte
	calls    []string
	met      map[string]int
}

// sequence compares some calls with one configuration.
func (c *comparison) sequence(seed uint64) {
	c.Rand = rand.New(rand.NewPCG(seed, 20))
	c.domain, c.calls = fmt.Sprintf("d%d", seed), nil
	c.text = c.configuration()
	theirs, err := loadOriginal(c.text)
	if err != nil {
		c.Fatal(err)
	}
	c.original.SetConfig(fixedConfig{theirs.config}, false)
	set, _, err := envoyrules.Parse("a.yaml", c.text)
	if err != nil {
		c.Fatal(err)
	}
	c.seconds = time.Now().Unix() + c.Int64N(10*24*3600) - 5*24*3600
	stop := c.serve(set)
	defer stop()
	for range 5 + c.IntN(25) {
		before := c.seconds
		switch c.IntN(6) {
		case 0:
			c.seconds += c.Int64N(600)
		case 1: // the last second of an hour or day, or the first of the next
			unit := []int64{3_600, 86_400}[c.IntN(2)]
			c.seconds += unit - c.seconds%unit - c.Int64N(2)
		}
		if c.seconds/3_600 != before/3_600 {
			c.met["first of a period"]++
		}
		if c.IntN(8) == 0 {
			c.giveBack()
		}
		c.call()
	}
}

// giveBack gives hits back in a call of its own. The version of envoyproxy/ratelimit that this
// module has ignores is_negative_hits. The change that was proposed for it (5a56d24, July 2026)
// subtracts them from the counter, down to 0, and answers OK with what is left of the limit.
func (c *comparison) giveBack() {
	r := c.request()
	r.Descriptors = r.Descriptors[:1]
	d := r.GetDescriptors()[0]
	d.HitsAddend = wrapperspb.UInt64(0)
	if _, err := c.original.ShouldRateLimit(c.Context(), r); err != nil { // a look
		c.Fatal(err)
	}
	hits := []uint64{1, 2, 5, 15, 1 << 40}[c.IntN(5)]
	d.HitsAddend, d.IsNegativeHits = wrapperspb.UInt64(hits), true
	ours, err := c.ours.ShouldRateLimit(c.Context(), r)
	if err != nil {
		c.Fatal(err)
	}
	c.calls = append(c.calls, fmt.Sprintf("%d %v\n  -> %v", c.seconds, r, ours))
	before := &c.original.counters.last[0]
	if before.limit == nil || before.limit.Limit.RequestsPerUnit == 0 {
		return
	}
	back, limit := min(hits, before.count), uint64(before.limit.Limit.RequestsPerUnit)
	if err := c.original.counters.client.DoCmd(nil, "DECRBY", before.key, back); err != nil {
		c.Fatal(err)
	}
	if before.count > limit {
		c.met["given back to an overdrawn counter"]++
	}
	left := limit - min(limit, before.count-back)
	if status := ours.GetStatuses()[0]; status.GetCode() != pb.RateLimitResponse_OK || uint64(status.GetLimitRemaining()) != left && !before.limit.ShadowMode {
		c.fail("%d given back of %d: %v, want %d left", hits, before.count, status, left)
	}
}

// serve starts our server over a store in memory, on the clock of the test.
func (c *comparison) serve(set *rules.Set) (stop func()) {
	store := fluxgate.Must(memstore.New(memstore.Config{Clock: func() time.Time { return time.Unix(c.seconds, 0) }}))
	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(set)))
	server := grpc.NewServer(grpc.ForceServerCodecV2(rls.Codec()))
	fluxgate.Must(rls.New(rls.Config{Limiter: engine, RuleSet: func(domain string) string { return domain }})).Register(server)
	listener := fluxgate.Must(net.Listen("tcp", "127.0.0.1:0"))
	go func() { _ = server.Serve(listener) }()
	conn := fluxgate.Must(grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))
	c.ours = pb.NewRateLimitServiceClient(conn)
	return func() { _ = conn.Close(); server.Stop(); _ = store.Close() }
}

const keys = "abcdef"

// configuration returns JSON, which is YAML: a limit for each key, and for some values.
func (c *comparison) configuration() []byte {
	var all []any
	for i, key := range keys {
		limit := map[string]any{"name": fmt.Sprintf("limit-%d", i)}
		switch c.IntN(10) {
		case 0:
			limit["unlimited"] = true
		case 1:
			limit["unit"], limit["requests_per_unit"] = "hour", 0
		default:
			limit["unit"], limit["requests_per_unit"] = []string{"hour", "day"}[c.IntN(2)], 1+c.IntN(12)
		}
		if c.IntN(8) == 0 && i > 0 {
			limit["replaces"] = []any{map[string]any{"name": fmt.Sprintf("limit-%d", c.IntN(i))}}
		}
		d := map[string]any{"key": string(key), "rate_limit": limit}
		if c.IntN(5) == 0 {
			d["value"] = []string{"x", "x*"}[c.IntN(2)]
		}
		switch c.IntN(6) {
		case 0:
			d["shadow_mode"] = true
		case 1, 2:
			d["quota_mode"] = true
		}
		all = append(all, d)
	}
	return fluxgate.Must(json.Marshal(map[string]any{"domain": c.domain, "descriptors": all}))
}

// request returns a call with different descriptors.
func (c *comparison) request() *pb.RateLimitRequest {
	r := &pb.RateLimitRequest{Domain: c.domain, HitsAddend: []uint32{0, 0, 1, 4}[c.IntN(4)]}
	keys := strings.Split(keys, "")
	c.Shuffle(len(keys), func(i, k int) { keys[i], keys[k] = keys[k], keys[i] })
	look := c.IntN(3) == 0 // at all, before a request
	for _, key := range keys[:1+c.IntN(3)] {
		d := &descriptorpb.RateLimitDescriptor{Entries: []*descriptorpb.RateLimitDescriptor_Entry{{Key: key, Value: []string{"x", "x", "x", "xy", "y"}[c.IntN(5)]}}}
		switch {
		case look:
			d.HitsAddend = wrapperspb.UInt64(0)
		case c.IntN(2) == 0:
			d.HitsAddend = wrapperspb.UInt64([]uint64{0, 1, 2, 3, 5, 9, 15, 1 << 40}[c.IntN(8)])
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// call makes one call to both programs.
func (c *comparison) call() {
	r := c.request()
	theirs, err := c.original.ShouldRateLimit(c.Context(), r)
	if err != nil {
		c.Fatal(err)
	}
	last := c.original.counters.last
	original, quotaMode := c.original.counters.refused()
	if !quotaMode && original != (theirs.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT) {
		c.Fatalf("the rule of the test says %v, envoyproxy/ratelimit %v", original, theirs)
	}
	ours, err := c.ours.ShouldRateLimit(c.Context(), r)
	if err != nil {
		c.Fatal(err)
	}
	c.calls = append(c.calls, fmt.Sprintf("%d %v\n  -> %v", c.seconds, r, ours))
	refused := c.refused(last)
	if refused != (ours.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT) {
		c.fail("refused: %v, want %v", ours.GetOverallCode(), refused)
	}
	for i := range last {
		c.compare(i, &last[i], ours.GetStatuses()[i], refused)
	}
	c.note(last, theirs, refused)
	if refused {
		if err := c.original.counters.uncount(); err != nil {
			c.Fatal(err)
		}
	}
}

// expected is the code of a descriptor here. A limit of 0 also refuses a look, which there
// passes until the first hit of a period.
func expected(d *counted) pb.RateLimitResponse_Code {
	if d.limit != nil && d.limit.Limit.RequestsPerUnit == 0 && !d.limit.ShadowMode {
		return pb.RateLimitResponse_OVER_LIMIT
	}
	return d.status.GetCode()
}

// refused is the overall code here: that of envoyproxy/ratelimit for the expected codes.
func (c *comparison) refused(last []counted) bool {
	here := slices.Clone(last)
	for i := range here {
		here[i].status = &pb.RateLimitResponse_DescriptorStatus{Code: expected(&here[i])}
	}
	refused, _ := (&counters{last: here}).refused()
	return refused
}

// compare compares the status of one descriptor. What is left after a refused call that did
// not count here is what was left before.
func (c *comparison) compare(i int, d *counted, status *pb.RateLimitResponse_DescriptorStatus, refused bool) {
	if want := expected(d); status.GetCode() != want {
		c.fail("descriptor %d is %v, want %v", i, status.GetCode(), want)
	}
	if d.limit == nil || d.limit.ShadowMode || d.limit.Limit.RequestsPerUnit == 0 {
		return
	}
	left := uint64(d.status.GetLimitRemaining())
	if refused && !d.over() {
		left += d.hits
	}
	if got := uint64(status.GetLimitRemaining()); got != left || status.GetCurrentLimit().GetRequestsPerUnit() != d.limit.Limit.RequestsPerUnit {
		c.fail("descriptor %d has %d left of %v, want %d of %v", i, got, status.GetCurrentLimit(), left, d.limit.Limit)
	}
	if got, want := status.GetDurationUntilReset().AsDuration(), d.status.GetDurationUntilReset().AsDuration(); got != want {
		c.fail("descriptor %d is reset after %v, want %v", i, got, want)
	}
}

// note counts what the call has met.
func (c *comparison) note(last []counted, theirs *pb.RateLimitResponse, refused bool) {
	c.met["calls"]++
	add := func(what string, met bool) {
		if met {
			c.met[what]++
		}
	}
	add("refused", refused)
	enforced, passes, over := false, false, false
	for i, d := range last {
		if d.limit == nil {
			add("unlimited", theirs.GetStatuses()[i].GetLimitRemaining() > 0)
			continue
		}
		limit := uint64(d.limit.Limit.RequestsPerUnit)
		add("shadow", d.limit.ShadowMode && d.over())
		add("over in quota mode", d.limit.QuotaMode && d.over())
		add("limit of 0", limit == 0)
		add("look at a full counter", d.hits == 0 && limit > 0 && d.count == limit)
		add("look at an overdrawn counter", d.hits == 0 && limit > 0 && d.count > limit)
		add("above the limit at once", limit > 0 && d.hits > limit)
		isOver := expected(&d) == pb.RateLimitResponse_OVER_LIMIT
		enforced = enforced || isOver && !d.limit.QuotaMode
		over, passes = over || isOver, passes || !isOver && d.hits > 0
	}
	add("refused by quota mode", refused && !enforced)
	add("over beside one that passes", refused && over && passes)
	add("replaced", slices.ContainsFunc(last, func(d counted) bool { return d.limit != nil && len(d.limit.Replaces) > 0 }) && slices.ContainsFunc(last, func(d counted) bool { return d.limit == nil }))
}

func (c *comparison) fail(format string, args ...any) {
	c.Helper()
	c.Fatalf("%s\nof %s\nby %s", fmt.Sprintf(format, args...), strings.Join(c.calls, "\n"), c.text)
}
