package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
)

// NewLogger makes a logger that writes text for people or json for machines,
// from a level on: debug, info, warn or error. Lines of a request that is
// traced name its trace.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var least slog.Level
	switch level {
	case "debug", "info", "", "warn", "error":
		if level != "" {
			_ = least.UnmarshalText([]byte(level)) // one of the four
		}
	default:
		return nil, fmt.Errorf("unknown log level %q: use debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "text", "":
		return slog.New(traced{slog.NewTextHandler(w, options)}), nil
	case "json":
		return slog.New(traced{slog.NewJSONHandler(w, options)}), nil
	}
	return nil, fmt.Errorf("unknown log format %q: use text or json", format)
}

// traced adds the trace to what is logged about a request.
type traced struct{ slog.Handler }

func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(attrs)} }
func (h traced) WithGroup(name string) slog.Handler       { return traced{h.Handler.WithGroup(name)} }

// Observers is several observers as one.
type Observers []fluxgate.Observer

// Decided implements [fluxgate.Observer].
func (all Observers) Decided(ctx context.Context, req *fluxgate.Request, d *fluxgate.Decision, err error) {
	for _, o := range all {
		o.Decided(ctx, req, d, err)
	}
}

// Waiting implements [fluxgate.Observer].
func (all Observers) Waiting(ctx context.Context, change int) {
	for _, o := range all {
		o.Waiting(ctx, change)
	}
}

// Settled implements [fluxgate.Observer].
func (all Observers) Settled(ctx context.Context, s fluxgate.Settlement, err error) {
	for _, o := range all {
		o.Settled(ctx, s, err)
	}
}

// StoreFailed implements [fluxgate.Observer].
func (all Observers) StoreFailed(ctx context.Context, err error) {
	for _, o := range all {
		o.StoreFailed(ctx, err)
	}
}

// Log is an observer that logs: decisions at level debug, without who asked
// and for what; a store that fails as a warning, at most once a second.
type Log struct {
	logger               *slog.Logger
	store, settle, rules *logthrottle.Throttle
}

var _ fluxgate.Observer = (*Log)(nil)

// NewLog makes one.
func NewLog(logger *slog.Logger) *Log {
	return &Log{logger: logger, store: logthrottle.New(time.Second), settle: logthrottle.New(time.Second), rules: logthrottle.New(time.Minute)}
}

// Decided implements [fluxgate.Observer].
func (l *Log) Decided(ctx context.Context, req *fluxgate.Request, d *fluxgate.Decision, err error) {
	if d.Reason == fluxgate.ReasonTooManyRules {
		if now, before := l.rules.Allow(time.Now()); now {
			l.logger.WarnContext(ctx, "more rules apply to a request than can be counted: it is refused; put rules into groups, or narrow them",
				"rule_set", req.RuleSet, "most", fluxgate.MaxMatches, "suppressed", before)
		}
	}
	if !l.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	came := outcomeOf(d, err)
	attrs := []slog.Attr{slog.String("outcome", came.String())}
	if ruleSetExists(came) && req.RuleSet != "" {
		attrs = append(attrs, slog.String("rule_set", req.RuleSet))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("err", err))
	} else {
		attrs = append(attrs, slog.Bool("allowed", d.Allowed))
	}
	if d.RuleID != "" {
		attrs = append(attrs, slog.String("rule", d.RuleID))
	}
	if d.Band != "" {
		attrs = append(attrs, slog.String("band", d.Band), slog.Int64("limit", d.Limit), slog.Int64("remaining", d.Remaining),
			slog.Duration("retry_after", d.RetryAfter), slog.Duration("wait", d.Wait), slog.String("source", sourceOf(d).String()))
	}
	if d.Owed > 0 {
		attrs = append(attrs, slog.Int64("owed", d.Owed))
	}
	if d.Degraded {
		attrs = append(attrs, slog.Bool("degraded", true))
	}
	l.logger.LogAttrs(ctx, slog.LevelDebug, "decided", attrs...)
}

// Waiting implements [fluxgate.Observer].
func (l *Log) Waiting(context.Context, int) {}

// Settled implements [fluxgate.Observer].
func (l *Log) Settled(ctx context.Context, _ fluxgate.Settlement, err error) {
	if err == nil {
		return
	}
	if now, before := l.settle.Allow(time.Now()); now {
		l.logger.WarnContext(ctx, "a receipt could not be settled", "err", err, "suppressed", before)
	}
}

// StoreFailed implements [fluxgate.Observer].
func (l *Log) StoreFailed(ctx context.Context, err error) {
	if now, before := l.store.Allow(time.Now()); now {
		l.logger.WarnContext(ctx, "the store could not be asked: rules go by their onFailure", "err", err, "suppressed", before)
	}
}
