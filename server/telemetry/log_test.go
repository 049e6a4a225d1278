package telemetry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// A logger writes in its format, from its level on.
func TestLogger_FormatAndLevel(t *testing.T) {
	for _, c := range []struct{ format, level, want string }{
		{"text", "warn", "level=WARN msg=two"},
		{"json", "warn", `"level":"WARN","msg":"two"`},
		{"", "", "level=INFO msg=one"},
	} {
		var out bytes.Buffer
		logger, err := telemetry.NewLogger(&out, c.format, c.level)
		if err != nil {
			t.Fatal(err)
		}
		logger.Info("one")
		logger.Warn("two")
		if !strings.Contains(out.String(), c.want) || c.level == "warn" && strings.Contains(out.String(), "one") {
			t.Errorf("%s from %s on wrote\n%s", c.format, c.level, &out)
		}
	}
	for _, c := range [][2]string{{"xml", "info"}, {"text", "loud"}} {
		if _, err := telemetry.NewLogger(new(bytes.Buffer), c[0], c[1]); err == nil {
			t.Errorf("format %q from level %q on was accepted", c[0], c[1])
		}
	}
}

// A log line about a traced request has its trace id.
func TestLogger_TraceID(t *testing.T) {
	var out bytes.Buffer
	logger, err := telemetry.NewLogger(&out, "json", "info")
	if err != nil {
		t.Fatal(err)
	}
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	logger.With("a", 1).InfoContext(trace.ContextWithSpanContext(t.Context(), span), "hello")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	if line["trace_id"] != "01000000000000000000000000000000" || line["span_id"] != "0200000000000000" {
		t.Errorf("the line names no trace: %s", &out)
	}
}

// A logged decision has no identity of the caller.
func TestLog_NoIdentity(t *testing.T) {
	var out bytes.Buffer
	logger, err := telemetry.NewLogger(&out, "text", "debug")
	if err != nil {
		t.Fatal(err)
	}
	log := telemetry.New(telemetry.Config{Logger: logger})
	req := &fluxgate.Request{
		IP: here, UserID: "their-name", APIKey: "their-key", Path: "/their/path", RuleSet: "api",
		Headers: map[string][]string{"Cookie": {"their-cookie"}}, Attributes: map[string]string{"tenant": "their-tenant"},
	}
	d := fluxgate.Decision{Reason: fluxgate.ReasonLimited, RuleID: "per-ip", Band: "5-per-1h", Limit: 5}
	log.Decided(t.Context(), req, &d, nil)
	req.RuleSet = "their-rule-set"
	log.Decided(t.Context(), req, &fluxgate.Decision{Reason: fluxgate.ReasonNoRuleSet}, nil)
	log.Decided(t.Context(), req, &fluxgate.Decision{}, fluxgate.ErrCost)
	text := out.String()
	for _, want := range []string{"outcome=limited rule_set=api allowed=false rule=per-ip", "outcome=no-rule-set", "outcome=invalid"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not logged:\n%s", want, text)
		}
	}
	if strings.Contains(text, "their") || strings.Contains(text, here.String()) {
		t.Errorf("who asked is logged:\n%s", text)
	}
}

// Redis stores log their failures themselves: once when they begin.
func TestLog_RedisFailures(t *testing.T) {
	var out bytes.Buffer
	logger, err := telemetry.NewLogger(&out, "json", "info")
	if err != nil {
		t.Fatal(err)
	}
	m := telemetry.New(telemetry.Config{Logger: logger})
	for _, err := range []error{store.ErrNotSent, redisstore.ErrUnavailable} {
		m.StoreFailed(t.Context(), fmt.Errorf("%w: no answer", err))
	}
	if out.Len() > 0 {
		t.Errorf("logged: %s", &out)
	}
	if got := scrape(t, m)["fluxgate_store_failures_total"]; got != 2 {
		t.Errorf("%v failures are counted, want 2", got)
	}
}

// A store that fails on every request does not fill the log.
func TestLog_StoreFailures(t *testing.T) {
	var out bytes.Buffer
	logger, err := telemetry.NewLogger(&out, "text", "info")
	if err != nil {
		t.Fatal(err)
	}
	log := telemetry.New(telemetry.Config{Logger: logger})
	for range 10_000 {
		log.StoreFailed(t.Context(), errors.New("redis is unavailable"))
	}
	if n := strings.Count(out.String(), "redis is unavailable"); n == 0 || n > 60 {
		t.Errorf("%d lines, want about one a second", n)
	}
	if first, _, _ := strings.Cut(out.String(), "\n"); strings.Contains(first, "suppressed") {
		t.Errorf("no line was suppressed before the first: %s", first)
	}
	log.Settled(t.Context(), store.Settlement{}, errors.New("no answer"))
	if !strings.Contains(out.String(), "cannot settle a receipt") {
		t.Error("a receipt that could not be settled is not logged")
	}
}
