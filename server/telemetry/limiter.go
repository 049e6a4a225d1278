package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/meter"
)

// Limiter decides requests: a [*fluxgate.Engine], or a wrapper of one.
type Limiter = meter.Limiter

// Limiter creates a span for each decision of next.
func (t *Tracing) Limiter(next Limiter) Limiter {
	if !t.Enabled() {
		return next
	}
	return &tracedLimiter{next, t.tracer, t.config.RuleSet}
}

type tracedLimiter struct {
	Limiter
	tracer  trace.Tracer
	ruleSet string
}

// Check implements [fluxgate.Limiter].
func (t *tracedLimiter) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	ctx, span := t.tracer.Start(ctx, "check")
	defer span.End()
	d, err := t.Limiter.Check(ctx, req)
	if span.IsRecording() {
		describe(span, t.ruleSet, req, &d, err)
	}
	return d, err
}

// CheckAll implements [Limiter].
func (t *tracedLimiter) CheckAll(
	ctx context.Context, reqs []fluxgate.Request,
) (fluxgate.Decision, []fluxgate.Decision, error) {
	ctx, span := t.tracer.Start(ctx, "check")
	defer span.End()
	d, each, err := t.Limiter.CheckAll(ctx, reqs)
	if span.IsRecording() {
		describe(span, t.ruleSet, &reqs[0], &d, err)
		span.SetAttributes(attribute.Int("fluxgate.requests", len(reqs)))
	}
	return d, each, err
}

// describe adds what was decided to a span. ruleSet is that of requests that name none.
func describe(span trace.Span, ruleSet string, req *fluxgate.Request, d *fluxgate.Decision, err error) {
	outcome := meter.OutcomeOf(d, err)
	set := meter.Unknown
	if outcome.RuleSetExists() {
		if set = req.RuleSet; set == "" {
			set = ruleSet
		}
	}
	span.SetAttributes(attribute.String("fluxgate.rule_set", set), attribute.String("fluxgate.outcome", outcome.String()),
		attribute.Bool("fluxgate.allowed", d.Allowed && err == nil))
	if d.RuleID != "" {
		span.SetAttributes(attribute.String("fluxgate.rule", d.RuleID))
	}
	if d.Band != "" {
		span.SetAttributes(attribute.String("fluxgate.source", meter.SourceOf(d)))
	}
	if d.Degraded {
		span.SetAttributes(attribute.Bool("fluxgate.degraded", true))
	}
	if outcome == meter.OutcomeError {
		span.SetStatus(codes.Error, "") // without the text, which a hook may have written
	}
}
