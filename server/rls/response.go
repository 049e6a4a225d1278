package rls

import (
	"math"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fluxgate/fluxgate"
)

// response is the answer to a call that was decided.
func (c *call) response(headers bool) *pb.RateLimitResponse {
	r := &pb.RateLimitResponse{OverallCode: codeOf(&c.all), Statuses: make([]*pb.RateLimitResponse_DescriptorStatus, len(c.decisions))}
	for i := range c.decisions {
		r.Statuses[i] = statusOf(&c.decisions[i])
	}
	r.DynamicMetadata = metadataOf(&c.all)
	if headers {
		r.ResponseHeadersToAdd = headersOf(&c.all)
	}
	return r
}

func codeOf(d *fluxgate.Decision) pb.RateLimitResponse_Code {
	if d.Allowed {
		return pb.RateLimitResponse_OK
	}
	return pb.RateLimitResponse_OVER_LIMIT
}

// statusOf is the status of a descriptor. Its limit is that of the band that binds.
func statusOf(d *fluxgate.Decision) *pb.RateLimitResponse_DescriptorStatus {
	s := &pb.RateLimitResponse_DescriptorStatus{Code: codeOf(d)}
	if d.Reason == fluxgate.ReasonExempt {
		s.LimitRemaining = math.MaxUint32
	}
	if d.Band == "" {
		return s
	}
	for b := range d.Bands() {
		if b.Rule.ID == d.RuleID && b.Band.Name() == d.Band {
			unit, requests := unitOf(b.Band)
			s.CurrentLimit = &pb.RateLimitResponse_RateLimit{Name: d.RuleID, RequestsPerUnit: uint32Of(requests), Unit: unit}
			break
		}
	}
	s.LimitRemaining = uint32Of(d.Remaining)
	s.DurationUntilReset = durationpb.New(d.ResetAfter)
	return s
}

func uint32Of(n int64) uint32 { return uint32(max(0, min(n, math.MaxUint32))) }

// metadataOf says why the call is decided so, in the metadata of Envoy's filter. It is nil
// if there is no reason beyond that no rule applies.
func metadataOf(d *fluxgate.Decision) *structpb.Struct {
	if d.RuleID == "" && d.Reason == fluxgate.ReasonOK {
		return nil
	}
	fields := map[string]*structpb.Value{"reason": structpb.NewStringValue(string(d.Reason))}
	if d.RuleID != "" {
		fields["rule"] = structpb.NewStringValue(d.RuleID)
	}
	if d.Band != "" {
		fields["band"] = structpb.NewStringValue(d.Band)
	}
	if d.Degraded {
		fields["degraded"] = structpb.NewBoolValue(true)
	}
	return &structpb.Struct{Fields: fields}
}

// headersOf are the headers of the band that binds, as those of the middleware.
func headersOf(d *fluxgate.Decision) []*core.HeaderValue {
	if d.Band == "" {
		return nil
	}
	header := func(name string, value int64) *core.HeaderValue {
		return &core.HeaderValue{Key: name, Value: strconv.FormatInt(value, 10)}
	}
	headers := []*core.HeaderValue{header("x-ratelimit-limit", d.Limit), header("x-ratelimit-remaining", d.Remaining)}
	if !d.Time.IsZero() {
		headers = append(headers, header("x-ratelimit-reset", ceilSeconds(time.Duration(d.Time.Add(d.ResetAfter).UnixNano()))))
	}
	if !d.Allowed && d.RetryAfter > 0 {
		headers = append(headers, header("retry-after", ceilSeconds(d.RetryAfter)))
	}
	return headers
}

func ceilSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
