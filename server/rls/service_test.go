package rls_test

import (
	"context"
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/rls"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// rules of the domain "shop": 3 an hour for each address, 10 an hour of logins, 800 tokens
// an hour that are charged afterwards, and values that are exempt, denied or measured.
func newRules() []rules.Rule {
	descriptor := func(entries ...rules.DescriptorMatch) rules.When { return rules.When{Descriptor: entries} }
	quota := func(n int64, period rules.Period) []rules.Band {
		return []rules.Band{{Kind: rules.Quota, Capacity: n, Period: period}}
	}
	whole := []string{"descriptor"}
	return []rules.Rule{
		{ID: "per-address", When: descriptor(rules.DescriptorMatch{Key: "remote_address", Except: []string{"10.0.0.9"}}), Scope: rules.ScopeComposite, KeyFields: whole, Bands: quota(3, "day")},
		{ID: "exempt", When: descriptor(rules.DescriptorMatch{Key: "remote_address", Value: "10.0.0.9"}), Action: rules.ActionAllow},
		{ID: "login", When: descriptor(rules.DescriptorMatch{Key: "path", Value: "/login*"}, rules.DescriptorMatch{Key: "method", Value: "POST"}), Bands: quota(10, "month")},
		{ID: "bucket", When: descriptor(rules.DescriptorMatch{Key: "bucket"}), Bands: []rules.Band{{Capacity: 20, Refill: time.Minute, RefillTokens: 5}}},
		{ID: "odd", When: descriptor(rules.DescriptorMatch{Key: "odd"}), Bands: []rules.Band{{Capacity: 20, Refill: 90 * time.Second}}},
		{ID: "tokens", When: descriptor(rules.DescriptorMatch{Key: "tokens"}), Scope: rules.ScopeComposite, KeyFields: whole, Bands: quota(800, "day"), Overdraft: true},
		{ID: "counted", When: descriptor(rules.DescriptorMatch{Key: "counted"}), Bands: quota(10, "day"), CountRefused: true, Attributes: map[string]any{
			"envoy.metadata": map[string]any{"team": "edge", "plan": map[string]any{"name": "gold"}},
		}},
		{ID: "spare", When: descriptor(rules.DescriptorMatch{Key: "spare"}), Bands: quota(100, "day"), CountRefused: true, Mode: rules.ModeAlternative, Attributes: map[string]any{
			"envoy.metadata": map[string]any{"team": "core", "plan": map[string]any{"name": "silver", "size": 3}},
		}},
		{ID: "denied", When: descriptor(rules.DescriptorMatch{Key: "banned"}), Action: rules.ActionDeny},
		{ID: "measured", When: descriptor(rules.DescriptorMatch{Key: "measured"}), Bands: quota(1, "day"), Mode: rules.ModeShadow},
	}
}

type client struct {
	testing.TB
	pb.RateLimitServiceClient
	conn *grpc.ClientConn
}

// newClient returns a client of a service over a store in memory.
func newClient(t testing.TB, change func(*rls.Config)) *client {
	t.Helper()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	set, err := rules.NewSet("shop", newRules()...)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := fluxgate.New(store, fluxgate.Static(set), fluxgate.WithRuleSet("shop"))
	if err != nil {
		t.Fatal(err)
	}
	c := rls.Config{Limiter: engine, RuleSet: func(domain string) string { return domain }}
	if change != nil {
		change(&c)
	}
	service, err := rls.New(c)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(rls.Codec()))
	service.Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(); server.Stop(); _ = store.Close() })
	return &client{TB: t, RateLimitServiceClient: pb.NewRateLimitServiceClient(conn), conn: conn}
}

// of is a descriptor of keys and values.
func of(entries ...string) *ratelimit.RateLimitDescriptor {
	d := &ratelimit.RateLimitDescriptor{}
	for i := 0; i < len(entries); i += 2 {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: entries[i], Value: entries[i+1]})
	}
	return d
}

func hits(n uint64, d *ratelimit.RateLimitDescriptor) *ratelimit.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(n)
	return d
}

func back(d *ratelimit.RateLimitDescriptor) *ratelimit.RateLimitDescriptor {
	d.IsNegativeHits = true
	return d
}

func limited(requests uint32, unit typepb.RateLimitUnit, multiplier uint32, d *ratelimit.RateLimitDescriptor) *ratelimit.RateLimitDescriptor {
	d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: requests, Unit: unit}
	if multiplier > 0 {
		d.Limit.UnitMultiplier = wrapperspb.UInt32(multiplier)
	}
	return d
}

func (c *client) call(descriptors ...*ratelimit.RateLimitDescriptor) *pb.RateLimitResponse {
	c.Helper()
	return c.send(&pb.RateLimitRequest{Domain: "shop", Descriptors: descriptors})
}

func (c *client) send(r *pb.RateLimitRequest) *pb.RateLimitResponse {
	c.Helper()
	answer, err := c.ShouldRateLimit(c.Context(), r)
	if err != nil {
		c.Fatalf("%v: %v", r, err)
	}
	return answer
}

const (
	ok   = pb.RateLimitResponse_OK
	over = pb.RateLimitResponse_OVER_LIMIT
)

// want is a status without the time until reset.
func want(code pb.RateLimitResponse_Code, remaining uint32, name string, requests uint32, unit pb.RateLimitResponse_RateLimit_Unit) *pb.RateLimitResponse_DescriptorStatus {
	s := &pb.RateLimitResponse_DescriptorStatus{Code: code, LimitRemaining: remaining}
	if name != "" {
		s.CurrentLimit = &pb.RateLimitResponse_RateLimit{Name: name, RequestsPerUnit: requests, Unit: unit}
	}
	return s
}

// Every field of the protocol, in a sequence of calls.
func TestService_Fields(t *testing.T) {
	const (
		day, month = pb.RateLimitResponse_RateLimit_DAY, pb.RateLimitResponse_RateLimit_MONTH
		minute     = pb.RateLimitResponse_RateLimit_MINUTE
		unknown    = pb.RateLimitResponse_RateLimit_UNKNOWN
	)
	type statuses []*pb.RateLimitResponse_DescriptorStatus
	type descriptors []*ratelimit.RateLimitDescriptor
	c := newClient(t, nil)
	for _, step := range []struct {
		name  string
		hits  uint32 // of the request
		send  descriptors
		code  pb.RateLimitResponse_Code
		each  statuses
		rule  string // in the metadata
		about string // the reason there
	}{
		{"one descriptor", 0, descriptors{of("remote_address", "10.0.0.1")}, ok, statuses{want(ok, 2, "per-address", 3, day)}, "per-address", "ok"},
		{"hits of the request", 2, descriptors{of("remote_address", "10.0.0.2")}, ok, statuses{want(ok, 1, "per-address", 3, day)}, "per-address", "ok"},
		{"hits of the descriptor replace them", 3, descriptors{hits(1, of("remote_address", "10.0.0.2"))}, ok, statuses{want(ok, 0, "per-address", 3, day)}, "per-address", "ok"},
		{"over the limit", 0, descriptors{of("remote_address", "10.0.0.2")}, over, statuses{want(over, 0, "per-address", 3, day)}, "per-address", "limited"},
		{
			"several, all or nothing", 0, descriptors{of("remote_address", "10.0.0.2"), of("path", "/login/a", "method", "POST"), of("other", "x")}, over,
			statuses{want(over, 0, "per-address", 3, day), want(ok, 10, "login", 10, month), want(ok, 0, "", 0, unknown)}, "per-address", "limited",
		},
		{
			"several that fit", 0, descriptors{of("remote_address", "10.0.0.1"), of("path", "/login/b", "method", "POST")}, ok,
			statuses{want(ok, 1, "per-address", 3, day), want(ok, 9, "login", 10, month)}, "per-address", "ok",
		},
		{"the same twice adds up", 0, descriptors{of("remote_address", "10.0.0.1"), of("remote_address", "10.0.0.1")}, over, statuses{want(over, 1, "per-address", 3, day), want(over, 1, "per-address", 3, day)}, "per-address", "limited"},
		{"a look takes nothing", 0, descriptors{hits(0, of("remote_address", "10.0.0.1"))}, ok, statuses{want(ok, 1, "per-address", 3, day)}, "per-address", "ok"},
		{"hits of 0 in the request are 1", 0, descriptors{of("remote_address", "10.0.0.1")}, ok, statuses{want(ok, 0, "per-address", 3, day)}, "per-address", "ok"},
		{"a look beside a take", 0, descriptors{hits(0, of("remote_address", "10.0.0.1")), of("path", "/login", "method", "POST")}, ok, statuses{want(ok, 0, "per-address", 3, day), want(ok, 8, "login", 10, month)}, "per-address", "ok"},
		{"negative hits give back", 0, descriptors{back(hits(2, of("remote_address", "10.0.0.1")))}, ok, statuses{want(ok, 2, "per-address", 3, day)}, "", ""},
		{"no more than the capacity", 0, descriptors{back(hits(1<<40, of("remote_address", "10.0.0.1")))}, ok, statuses{want(ok, 3, "per-address", 3, day)}, "", ""},
		{"negative hits of 0 are a look", 0, descriptors{back(hits(0, of("remote_address", "10.0.0.1")))}, ok, statuses{want(ok, 3, "per-address", 3, day)}, "per-address", "ok"},
		{
			"a refused call gives nothing back", 0, descriptors{of("remote_address", "10.0.0.2"), back(of("path", "/login", "method", "POST"))}, over,
			statuses{want(over, 0, "per-address", 3, day), want(ok, 0, "", 0, unknown)}, "per-address", "limited",
		},
		{"order and number of entries count", 0, descriptors{of("method", "POST", "path", "/login"), of("path", "/login")}, ok, statuses{want(ok, 0, "", 0, unknown), want(ok, 0, "", 0, unknown)}, "", "no-rule"},
		{"exempt", 0, descriptors{of("remote_address", "10.0.0.9")}, ok, statuses{want(ok, 1<<32-1, "", 0, unknown)}, "exempt", "exempt"},
		{"denied", 0, descriptors{of("banned", "x"), of("remote_address", "10.0.0.3")}, over, statuses{want(over, 0, "", 0, unknown), want(ok, 0, "", 0, unknown)}, "denied", "denied"},
		{"denied took nothing", 0, descriptors{hits(0, of("remote_address", "10.0.0.3"))}, ok, statuses{want(ok, 3, "per-address", 3, day)}, "per-address", "ok"},
		{"measured only", 5, descriptors{of("measured", "x")}, ok, statuses{want(ok, 0, "", 0, unknown)}, "", "no-rule"},
		{"a token bucket", 0, descriptors{of("bucket", "x")}, ok, statuses{want(ok, 19, "bucket", 5, minute)}, "bucket", "ok"},
		{"a period that is no unit", 0, descriptors{of("odd", "x")}, ok, statuses{want(ok, 19, "odd", 20, unknown)}, "odd", "ok"},
		{"more than a bucket holds", 0, descriptors{hits(1<<63, of("bucket", "x"))}, over, statuses{want(over, 19, "bucket", 5, minute)}, "bucket", "cost-too-high"},
		{
			"twice the largest number", 0, descriptors{hits(1<<63, of("bucket", "x")), hits(1<<64-1, of("bucket", "x"))}, over,
			statuses{want(over, 19, "bucket", 5, minute), want(over, 19, "bucket", 5, minute)}, "bucket", "cost-too-high",
		},
		{"a charge is debited", 0, descriptors{hits(1_200, of("tokens", "ann"))}, ok, statuses{want(ok, 0, "tokens", 800, day)}, "tokens", "ok"},
		{"a look in debt is refused", 0, descriptors{hits(0, of("tokens", "ann"))}, over, statuses{want(over, 0, "tokens", 800, day)}, "tokens", "limited"},
		{"a charge beside a refusal is debited", 0, descriptors{of("banned", "x"), hits(1_000, of("tokens", "bob"))}, over, statuses{want(over, 0, "", 0, unknown), want(ok, 0, "tokens", 800, day)}, "denied", "denied"},
		{"as the next look shows", 0, descriptors{hits(0, of("tokens", "bob"))}, over, statuses{want(over, 0, "tokens", 800, day)}, "tokens", "limited"},
		{"a refund is not refused while debt remains", 0, descriptors{back(hits(1, of("tokens", "bob")))}, ok, statuses{want(ok, 0, "tokens", 800, day)}, "", ""},
		{"after a refund it passes", 0, descriptors{back(hits(401, of("tokens", "ann")))}, ok, statuses{want(ok, 1, "tokens", 800, day)}, "", ""},
		{"and so does a look", 0, descriptors{hits(0, of("tokens", "ann"))}, ok, statuses{want(ok, 1, "tokens", 800, day)}, "tokens", "ok"},
		{"a limit of the call", 2, descriptors{limited(5, typepb.RateLimitUnit_DAY, 0, of("free", "x"))}, ok, statuses{want(ok, 3, "(request)", 5, day)}, "(request)", "ok"},
		{"it counts by the descriptor", 0, descriptors{limited(5, typepb.RateLimitUnit_DAY, 1, of("free", "y"))}, ok, statuses{want(ok, 4, "(request)", 5, day)}, "(request)", "ok"},
		{"it replaces the rules", 0, descriptors{limited(9, typepb.RateLimitUnit_MONTH, 0, of("banned", "x"))}, ok, statuses{want(ok, 8, "(request)", 9, month)}, "(request)", "ok"},
		{"of several units", 0, descriptors{limited(9, typepb.RateLimitUnit_MINUTE, 5, of("free", "z"))}, ok, statuses{want(ok, 8, "(request)", 9, unknown)}, "(request)", "ok"},
		{"of nothing", 0, descriptors{limited(0, typepb.RateLimitUnit_DAY, 0, of("free", "z"))}, over, statuses{want(over, 0, "", 0, unknown)}, "(request)", "limited"},
	} {
		answer := c.send(&pb.RateLimitRequest{Domain: "shop", HitsAddend: step.hits, Descriptors: step.send})
		if answer.GetOverallCode() != step.code || len(answer.GetStatuses()) != len(step.each) {
			t.Fatalf("%s: %v", step.name, answer)
		}
		for i, got := range answer.GetStatuses() {
			if limit := got.GetCurrentLimit(); limit != nil {
				if reset := got.GetDurationUntilReset(); reset == nil || reset.AsDuration() < 0 {
					t.Errorf("%s: it is reset after %v", step.name, reset)
				}
				got.DurationUntilReset = nil
			}
			if !proto.Equal(got, step.each[i]) {
				t.Errorf("%s: the status of descriptor %d is %v, want %v", step.name, i, got, step.each[i])
			}
		}
		about := answer.GetDynamicMetadata().GetFields()
		if about["rule"].GetStringValue() != step.rule || about["reason"].GetStringValue() != step.about {
			t.Errorf("%s: the metadata is %v", step.name, about)
		}
		if answer.GetResponseHeadersToAdd() != nil || answer.GetRequestHeadersToAdd() != nil || answer.GetRawBody() != nil || answer.GetQuota() != nil {
			t.Errorf("%s: unexpected fields: %v", step.name, answer)
		}
	}
}

// A quota is reset at the end of its period, a token bucket when it is full. A rejected
// descriptor says when it may be sent again, in whole seconds: Envoy sends that as Retry-After.
func TestService_Reset(t *testing.T) {
	c := newClient(t, nil)
	until := func(d *ratelimit.RateLimitDescriptor) time.Duration {
		return c.call(d).GetStatuses()[0].GetDurationUntilReset().AsDuration()
	}
	midnight := time.Until(time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour))
	if got := until(of("remote_address", "10.0.0.1")); got > midnight+time.Second || got < midnight-time.Minute {
		t.Errorf("the quota is reset after %v, midnight is in %v", got, midnight)
	}
	if got := until(of("bucket", "x")); got > 12*time.Second || got < 11*time.Second {
		t.Errorf("one of 5 tokens a minute is back after %v", got)
	}
	c.call(hits(19, of("bucket", "x")))
	if got := until(of("bucket", "x")); got != 12*time.Second {
		t.Errorf("one of 5 tokens a minute fits after %v, and the bucket is full after 4m", got)
	}
}

func TestService_Headers(t *testing.T) {
	c := newClient(t, func(c *rls.Config) { c.ResponseHeaders = true })
	headers := func(answer *pb.RateLimitResponse) map[string]string {
		all := map[string]string{}
		for _, h := range answer.GetResponseHeadersToAdd() {
			all[h.GetKey()] = h.GetValue()
		}
		return all
	}
	got := headers(c.call(hits(3, of("remote_address", "10.0.0.1"))))
	if got["x-ratelimit-limit"] != "3" || got["x-ratelimit-remaining"] != "0" || got["x-ratelimit-reset"] == "" || got["retry-after"] != "" {
		t.Errorf("headers %v", got)
	}
	if got := headers(c.call(of("remote_address", "10.0.0.1"))); got["retry-after"] == "" {
		t.Errorf("headers of a refusal %v", got)
	}
	if got := c.call(of("free", "x")).GetResponseHeadersToAdd(); got != nil {
		t.Errorf("headers without a limit: %v", got)
	}
}

// Calls that cannot be decided are errors that say why.
func TestService_Wrong(t *testing.T) {
	c := newClient(t, func(c *rls.Config) {
		c.May = func(_ context.Context, ruleSet string) bool { return ruleSet != "secret" }
	})
	many := make([]*ratelimit.RateLimitDescriptor, 65)
	for i := range many {
		many[i] = of("remote_address", "10.0.0.1")
	}
	long := of()
	for range 257 {
		long.Entries = append(long.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: "a", Value: "b"})
	}
	for name, step := range map[string]struct {
		request *pb.RateLimitRequest
		code    codes.Code
		says    string
	}{
		"no domain":              {&pb.RateLimitRequest{Descriptors: many[:1]}, codes.InvalidArgument, "domain"},
		"no descriptor":          {&pb.RateLimitRequest{Domain: "shop"}, codes.InvalidArgument, "descriptor"},
		"no entry":               {&pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{{}}}, codes.InvalidArgument, "entry"},
		"unknown unit":           {&pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{limited(1, 9, 0, of("a", "b"))}}, codes.InvalidArgument, "unit"},
		"several months":         {&pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{limited(1, typepb.RateLimitUnit_MONTH, 2, of("a", "b"))}}, codes.InvalidArgument, "months"},
		"a very long limit":      {&pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{limited(1, typepb.RateLimitUnit_DAY, 1<<31, of("a", "b"))}}, codes.InvalidArgument, "limit"},
		"a limit that overflows": {&pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{limited(1, typepb.RateLimitUnit_DAY, 3_976_511_671, of("a", "b"))}}, codes.InvalidArgument, "units"},
		"not allowed":            {&pb.RateLimitRequest{Domain: "secret", Descriptors: many[:1]}, codes.PermissionDenied, "secret"},
	} {
		_, err := c.ShouldRateLimit(t.Context(), step.request)
		if got := status.Convert(err); got.Code() != step.code || !strings.Contains(got.Message(), step.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// As an error Envoy would let them pass.
	for _, request := range []*pb.RateLimitRequest{{Domain: "shop", Descriptors: many}, {Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{long}}} {
		if answer := c.send(request); answer.GetOverallCode() != over || answer.GetDynamicMetadata().GetFields()["reason"].GetStringValue() != "too-many-rules" {
			t.Errorf("%d descriptors: %v", len(request.GetDescriptors()), answer)
		}
	}
	if answer := c.send(&pb.RateLimitRequest{Domain: "unknown", Descriptors: many[:1]}); answer.GetOverallCode() != ok || answer.GetDynamicMetadata().GetFields()["reason"].GetStringValue() != "no-rule-set" {
		t.Errorf("an unknown domain: %v", answer)
	}
}

// A look before a request is refused after a charge above the limit, as in
// envoyproxy/ratelimit. The metadata of limits that pass is in the answer.
func TestService_LooksAndCharges(t *testing.T) {
	c := newClient(t, nil)
	call := func(n uint64) *pb.RateLimitResponse {
		return c.send(&pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{hits(n, of("counted", "a")), hits(0, of("spare", "a"))}})
	}
	for i, step := range []struct {
		hits, left uint64
		code       pb.RateLimitResponse_Code
	}{{0, 10, ok}, {8, 2, ok}, {2, 0, ok}, {0, 0, ok}, {5, 0, over}, {0, 0, over}} {
		answer := call(step.hits)
		if answer.GetOverallCode() != step.code || uint64(answer.GetStatuses()[0].GetLimitRemaining()) != step.left {
			t.Errorf("step %d: %v", i, answer)
		}
		got := answer.GetDynamicMetadata().AsMap()["metadata"]
		want := map[string]any{"team": "edge", "plan": map[string]any{"name": "gold", "size": 3.0}}
		if step.code == over {
			want = map[string]any{"team": "core", "plan": map[string]any{"name": "silver", "size": 3.0}}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("step %d: metadata %v, want %v", i, got, want)
		}
	}
}

// deadlines is a limiter that records how long it may hold calls.
type deadlines struct {
	rls.Limiter
	left []time.Duration
}

func (d *deadlines) CheckAll(ctx context.Context, reqs []fluxgate.Request) (fluxgate.Decision, []fluxgate.Decision, error) {
	until, _ := ctx.Deadline()
	d.left = append(d.left, time.Until(until))
	return d.Limiter.CheckAll(ctx, reqs)
}

// A call is held so that its answer arrives before its deadline.
func TestService_Deadline(t *testing.T) {
	var recorded deadlines
	c := newClient(t, func(c *rls.Config) {
		recorded.Limiter = c.Limiter
		c.Limiter = &recorded
	})
	for i, step := range []struct{ timeout, most time.Duration }{{10 * time.Second, 10*time.Second - 100*time.Millisecond}, {time.Minute, time.Minute - 100*time.Millisecond}} {
		ctx, cancel := context.WithTimeout(t.Context(), step.timeout)
		_, err := c.ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{of("remote_address", "10.0.0.1")}})
		cancel()
		if err != nil || recorded.left[i] > step.most || recorded.left[i] < step.most/2 {
			t.Errorf("a call with the timeout %v may be held for %v, want %v: %v", step.timeout, recorded.left[i], step.most, err)
		}
	}
}

// withoutRefunds is a limiter while its store is away.
type withoutRefunds struct{ rls.Limiter }

func (withoutRefunds) Refund(context.Context, *fluxgate.Request) (fluxgate.Decision, error) {
	return fluxgate.Decision{}, errors.New("no refund")
}

// A refund that fails does not discard the decision on other descriptors: Envoy lets calls
// pass that end with an error.
func TestService_RefundFails(t *testing.T) {
	failed := 0
	c := newClient(t, func(c *rls.Config) {
		c.Limiter = withoutRefunds{c.Limiter}
		c.Failed = func(context.Context, error) { failed++ }
	})
	refund := func() *ratelimit.RateLimitDescriptor { return back(of("remote_address", "10.0.0.2")) }
	for i, code := range []pb.RateLimitResponse_Code{ok, ok, ok, over} {
		if answer := c.call(refund(), of("remote_address", "10.0.0.1")); answer.GetOverallCode() != code || answer.GetStatuses()[0].GetCode() != ok {
			t.Errorf("call %d: %v", i, answer)
		}
	}
	if failed != 3 { // a call that is refused gives nothing back
		t.Errorf("%d refunds failed, want 3", failed)
	}
	if _, err := c.ShouldRateLimit(t.Context(), &pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{refund()}}); status.Code(err) != codes.Unavailable {
		t.Errorf("a refund alone: %v", err)
	}
}

// leftRefund is a limiter whose refunds take until the call has ended.
type leftRefund struct{ rls.Limiter }

func (leftRefund) Refund(ctx context.Context, _ *fluxgate.Request) (fluxgate.Decision, error) {
	<-ctx.Done()
	return fluxgate.Decision{}, ctx.Err()
}

// What a call has taken that ends while its refunds are made is withdrawn.
func TestService_EndsWhileRefunding(t *testing.T) {
	withdrawn := make(chan *fluxgate.Decision, 1)
	c := newClient(t, func(c *rls.Config) {
		c.Limiter = leftRefund{c.Limiter}
		c.Withdraw = func(_ context.Context, all ...*fluxgate.Decision) { withdrawn <- all[0] }
		c.Failed = func(_ context.Context, err error) { t.Errorf("the call failed: %v", err) }
	})
	ctx, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer leave()
	_, err := c.ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{
		of("remote_address", "10.0.0.1"), back(hits(1, of("bucket", "b"))),
	}})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("answered: %v", err)
	}
	if receipt := (<-withdrawn).Receipt(); receipt == nil || len(receipt.Takes) != 1 || receipt.Takes[0].Key.Rule != "per-address" {
		t.Errorf("withdrawn: %+v", receipt)
	}
}

// A value that is not UTF-8 is limited like any other: an error would let it pass.
func TestService_NotUTF8(t *testing.T) {
	c := newClient(t, nil)
	call := func(value string) *pb.RateLimitResponse {
		entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "remote_address")
		entry = protowire.AppendString(protowire.AppendTag(entry, 2, protowire.BytesType), value)
		descriptor := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
		request := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "shop")
		request = protowire.AppendBytes(protowire.AppendTag(request, 2, protowire.BytesType), descriptor)
		answer := new(pb.RateLimitResponse)
		if err := c.conn.Invoke(t.Context(), rls.Method, rawMessage(request), answer, grpc.ForceCodecV2(rawCodec{})); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	for range 3 {
		if answer := call("10.0.0.\xff"); answer.GetOverallCode() != ok {
			t.Fatal(answer)
		}
	}
	if answer := call("10.0.0.\xff"); answer.GetOverallCode() != over {
		t.Errorf("a fourth call: %v", answer)
	}
	if answer := call("10.0.0.\xfe"); answer.GetOverallCode() != ok {
		t.Errorf("another value: %v", answer)
	}
}

// rawCodec sends bytes as they are.
type rawCodec struct{ encoding.CodecV2 }

type rawMessage []byte

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.(rawMessage))}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}
