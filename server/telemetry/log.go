package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/logthrottle"
	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// NewLogger returns a logger that writes text or json. level is the lowest level that is
// logged: debug, info, warn or error. Lines about a traced request have its trace id.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var lowest slog.Level
	if err := lowest.UnmarshalText([]byte(cmp.Or(level, "info"))); err != nil {
		return nil, fmt.Errorf("unknown log level %q: use debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: lowest}
	switch format {
	case "text", "":
		return slog.New(traced{slog.NewTextHandler(w, options)}), nil
	case "json":
		return slog.New(traced{slog.NewJSONHandler(w, options)}), nil
	}
	return nil, fmt.Errorf("unknown log format %q: use text or json", format)
}

// traced adds the ids of trace and span to lines about a request.
type traced struct{ slog.Handler }

func (t traced) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return t.Handler.Handle(ctx, r)
}

func (t traced) WithAttrs(attrs []slog.Attr) slog.Handler { return traced{t.Handler.WithAttrs(attrs)} }
func (t traced) WithGroup(name string) slog.Handler       { return traced{t.Handler.WithGroup(name)} }

// decisionLog logs decisions at level debug, without the caller's identity and
// path, and warns of failures, at most once in a while.
type decisionLog struct {
	logger                                      *slog.Logger
	store, settlements, tooManyRules, noRuleSet *logthrottle.Throttle
}

func newDecisionLog(logger *slog.Logger) *decisionLog {
	logger = cmp.Or(logger, slog.Default())
	return &decisionLog{
		logger: logger,
		store:  logthrottle.New(time.Second), settlements: logthrottle.New(time.Second),
		tooManyRules: logthrottle.New(time.Minute), noRuleSet: logthrottle.New(time.Minute),
	}
}

func (l *decisionLog) decided(ctx context.Context, req *fluxgate.Request, d *fluxgate.Decision, err error, outcome meter.Outcome) {
	if d.Reason == fluxgate.ReasonTooManyRules {
		l.tooManyRules.Log(ctx, l.logger, slog.LevelWarn, "request rejected: too many rules match it; use groups, or narrow the rules",
			"rule_set", req.RuleSet, "limit", store.MaxMatches)
	}
	if d.Reason == fluxgate.ReasonNoRuleSet {
		l.noRules(ctx, d, err)
	}
	if !l.logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	ruleSet := ""
	if outcome.RuleSetExists() {
		ruleSet = req.RuleSet
	}
	l.logger.LogAttrs(ctx, slog.LevelDebug, "decided", slog.String("outcome", outcome.String()),
		slog.String("rule_set", ruleSet), slog.Bool("allowed", d.Allowed && err == nil), slog.String("rule", d.RuleID),
		slog.String("band", d.Band), slog.Int64("limit", d.Limit), slog.Int64("remaining", d.Remaining),
		slog.Duration("retry_after", d.RetryAfter), slog.Duration("wait", d.Wait), slog.String("source", meter.SourceOf(d)),
		slog.Int64("owed", d.Owed), slog.Bool("degraded", d.Degraded), slog.Any("error", err))
}

// noRules warns of a request whose rule set is not in memory. The caller may have made up
// its name, so the line does not have it; the line of package rules/reload names ids.
func (l *decisionLog) noRules(ctx context.Context, d *fluxgate.Decision, err error) {
	message := "rule set not loaded: its requests are rejected (missing-rule-behavior=REJECT)"
	switch {
	case err != nil:
		message = "rule set does not exist: requests that name it are rejected"
	case d.Allowed:
		message = "rule set not loaded: its requests are allowed (missing-rule-behavior=ALLOW)"
	}
	l.noRuleSet.Log(ctx, l.logger, slog.LevelWarn, message)
}

func (l *decisionLog) storeFailed(ctx context.Context, err error) {
	if errors.Is(err, store.ErrNotSent) || errors.Is(err, redisstore.ErrUnavailable) {
		// The store logs when that begins and ends.
		l.logger.DebugContext(ctx, "store call failed", "error", err)
		return
	}
	l.store.Log(ctx, l.logger, slog.LevelWarn, "store unavailable: requests are counted in this process (onFailure local), "+
		"allowed (open) or rejected (closed)", "error", err)
}
