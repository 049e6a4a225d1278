package rls

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/deadline"
	"github.com/fluxgate/fluxgate/store"
)

// Limiter decides calls: a [*fluxgate.Engine], or a wrapper of one.
type Limiter interface {
	CheckAll(ctx context.Context, reqs []fluxgate.Request) (fluxgate.Decision, []fluxgate.Decision, error)
	Refund(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error)
}

// Config configures a [Service]. Limiter and RuleSet are required.
type Config struct {
	Limiter Limiter
	// RuleSet returns the id of the rule set of a domain.
	RuleSet func(domain string) string
	// May reports whether the caller may check a rule set. Nil means yes.
	May func(ctx context.Context, ruleSet string) bool
	// ResponseHeaders adds rate limit headers to answers. Envoy can add its own.
	ResponseHeaders bool
	// Failed is called for calls and refunds that failed because of an error of the server.
	// Nil means no call.
	Failed func(ctx context.Context, err error)
	// Withdraw gives back what the decision of a call has taken that ends while its refunds
	// are made. Nil means that it stays taken. For other calls that is left to the limiter.
	Withdraw func(ctx context.Context, decisions ...*fluxgate.Decision)
}

// Service is the rate limit service.
type Service struct{ config Config }

// New returns a service.
func New(c Config) (*Service, error) {
	if c.Limiter == nil || c.RuleSet == nil {
		return nil, errors.New("the rate limit service needs a limiter and the rule sets of domains")
	}
	if c.May == nil {
		c.May = func(context.Context, string) bool { return true }
	}
	if c.Withdraw == nil {
		c.Withdraw = func(context.Context, ...*fluxgate.Decision) {}
	}
	if c.Failed == nil {
		c.Failed = func(context.Context, error) {}
	}
	return &Service{config: c}, nil
}

// Method is the name of the only method.
const Method = pb.RateLimitService_ShouldRateLimit_FullMethodName

// Register adds the service to a server, which must have [Codec].
func (s *Service) Register(server grpc.ServiceRegistrar) {
	desc := pb.RateLimitService_ServiceDesc
	desc.HandlerType = (*any)(nil)
	desc.Methods = []grpc.MethodDesc{{MethodName: desc.Methods[0].MethodName, Handler: handle}}
	server.RegisterService(&desc, s)
}

//nolint:revive // the order of gRPC
func handle(service any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	r := new(request)
	if err := decode(r); err != nil {
		return nil, err
	}
	s := service.(*Service)
	if interceptor == nil {
		return s.answer(ctx, r)
	}
	return interceptor(ctx, r, &grpc.UnaryServerInfo{Server: s, FullMethod: Method}, func(ctx context.Context, in any) (any, error) {
		return s.answer(ctx, in.(*request))
	})
}

// answer decides a call.
func (s *Service) answer(ctx context.Context, r *request) (response, error) {
	switch n := len(r.descriptors); {
	case r.domain == "":
		return nil, status.Error(codes.InvalidArgument, "the domain is empty")
	case n == 0:
		return nil, status.Error(codes.InvalidArgument, "there is no descriptor")
	}
	ruleSet := s.config.RuleSet(r.domain)
	if !s.config.May(ctx, ruleSet) {
		return nil, status.Errorf(codes.PermissionDenied, "the caller does not have the role check on rule set %s", ruleSet)
	}
	if r.tooLong() {
		return (&call{all: fluxgate.Decision{Reason: fluxgate.ReasonTooManyRules}}).response(false), nil
	}
	c, err := newCall(ruleSet, r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := c.decide(deadline.BeforeAnswer(ctx), s.config.Limiter); err != nil {
		return nil, s.failed(ctx, err)
	}
	if ctx.Err() != nil {
		s.config.Withdraw(ctx, &c.all)
		return nil, s.failed(ctx, ctx.Err())
	}
	if c.refundFailed != nil {
		s.config.Failed(ctx, c.refundFailed)
	}
	return c.response(s.config.ResponseHeaders), nil
}

// failed turns an error into a status. Its text may name servers and stays in the log.
func (s *Service) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	if errors.Is(err, fluxgate.ErrCost) || errors.Is(err, store.ErrDemand) {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	s.config.Failed(ctx, err)
	return status.Error(codes.Unavailable, "the call cannot be decided; the log of the server has the reason")
}

// call is a call while it is decided.
type call struct {
	reqs      []fluxgate.Request
	refunds   []bool
	decisions []fluxgate.Decision // of each descriptor
	all       fluxgate.Decision   // of those that are no refunds
	// refundFailed is why something was not given back, in a call that is decided
	// nevertheless: as an error Envoy would let it pass.
	refundFailed error
}

func newCall(ruleSet string, r *request) (*call, error) {
	n := len(r.descriptors)
	c := &call{reqs: make([]fluxgate.Request, n), refunds: make([]bool, n)}
	for i := range r.descriptors {
		d := &r.descriptors[i]
		hits := max(1, r.hits)
		if d.hasHits {
			hits = d.hits
		}
		if len(d.entries) == 0 {
			return nil, fmt.Errorf("descriptor %d has no entry", i)
		}
		c.reqs[i] = fluxgate.Request{RuleSet: ruleSet, Descriptor: d.entries, Cost: hits, Peek: hits == 0, EndUnknown: true}
		c.refunds[i] = d.negative && hits > 0
		if d.limit != nil {
			band, err := d.limit.band()
			if err != nil {
				return nil, fmt.Errorf("descriptor %d: %w", i, err)
			}
			c.reqs[i].Limit = &band
		}
	}
	return c, nil
}

// decide takes for all descriptors, and gives back for those with negative hits unless
// the call is refused.
func (c *call) decide(ctx context.Context, limiter Limiter) error {
	taking := c.reqs
	if slices.Contains(c.refunds, true) {
		taking = nil
		for i := range c.reqs {
			if !c.refunds[i] {
				taking = append(taking, c.reqs[i])
			}
		}
	}
	c.all = fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonOK}
	if len(taking) > 0 {
		var err error
		if c.all, c.decisions, err = limiter.CheckAll(ctx, taking); err != nil {
			return err
		}
	}
	if len(taking) == len(c.reqs) {
		return nil
	}
	each := make([]fluxgate.Decision, len(c.reqs))
	for i := range c.reqs {
		switch {
		case !c.refunds[i]:
			each[i], c.decisions = c.decisions[0], c.decisions[1:]
		case c.all.Allowed:
			d, err := limiter.Refund(ctx, &c.reqs[i])
			if err != nil && len(taking) == 0 {
				return err
			}
			c.refundFailed = errors.Join(c.refundFailed, err)
			d.Allowed = true // a refund is never refused, also where the bucket is still in debt
			each[i] = d
		default:
			each[i] = fluxgate.Decision{Allowed: true, Reason: fluxgate.ReasonOK}
		}
	}
	c.decisions = each
	return nil
}
