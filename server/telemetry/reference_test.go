package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/fluxgate/fluxgate/store"
)

const reference = "../../docs/metrics.md"

// label describes the values of a label.
type label struct {
	name    string
	metrics []string // nil if the label means the same everywhere
	text    string
	values  []string // nil if they are not a fixed set
}

var labels = []label{
	{"rule_set", nil, "the first 100 rule sets since the start; later ones share `other`, and one that does not exist is `unknown`", nil},
	{"rule", nil, "the first 1,000 rules since the start; later ones share `other`", nil},
	{"outcome", nil, "what was decided. `invalid` is an invalid request, `canceled` a caller that disconnected, `error` an internal error without a decision; " +
		"the others are reasons of decisions: [api.md](api.md)", outcomes()},
	{"allowed", nil, "whether the request passed", []string{"true", "false"}},
	{"source", []string{"fluxgate_decisions_total"}, "where the binding result came from. `none`: no bucket was needed", sources()},
	{"source", []string{"fluxgate_rules_source", "fluxgate_rule_sets"}, "where rules came from. `copy` is on disk, `none` means that there are no rules", []string{"source", "copy", "none"}},
	{"result", []string{"fluxgate_settlements_total"}, "of settling a receipt", []string{"ok", "failed"}},
	{"result", []string{"fluxgate_rules_messages_total"}, "of an announcement of a rule change", []string{"heard", "unneeded", "malformed"}},
	{"result", []string{"fluxgate_warnings_total"}, "of a warning. `failed` is a post that is repeated, `dropped` one that failed for a day", []string{"delivered", "failed", "dropped"}},
	{"direction", nil, "of tokens when a receipt is settled", []string{"returned", "charged"}},
	{"by", nil, "why a decision needed no call of Redis: local tokens (`slice`), an earlier rejection (`refusal`), or the `pause` of a bucket that ran low: " +
		"[scaling.md](scaling.md#operations)", []string{"slice", "refusal", "pause"}},
	{"node", nil, "the address of a Redis server, of at most 1,000", nil},
	{"listener", nil, "by the setting of its address", []string{"http", "grpc", "admin", "metrics"}},
	{"route", nil, "the pattern of the route, such as `/v1/check`; never what a caller sends", nil},
	{"method", []string{"fluxgate_http_requests_total"}, "of the request", telemetry.Methods()},
	{"method", []string{"fluxgate_grpc_calls_total", "fluxgate_grpc_call_duration_seconds"}, "the full name of the method", nil},
	{"code", []string{"fluxgate_http_requests_total"}, "the status, such as `200`", nil},
	{"code", []string{"fluxgate_grpc_calls_total"}, "the name of the code, such as `OK` and `Unavailable`", nil},
	{"version", nil, "of the build", nil},
	{"goversion", nil, "the Go release of the build", nil},
}

// sections are the parts of the page, by patterns of names.
var sections = []struct{ title, pattern string }{
	{"Decisions", `decision|near_limit|shadow|peeks`},
	{"Waiting, settling and warnings", `wait|settle|fluxgate_warnings`},
	{"Redis", `store_`},
	{"Fallback", `fallback|fleet`},
	{"Leases", `lease`},
	{"Rules", `rule|audit`},
	{"Requests and connections", `http|grpc|connections|accept`},
	{"Build", `build`},
}

// metric is a family of a scrape.
type metric struct {
	name, kind, help string
	labels           map[string][]string // names to values
}

// scrapedMetrics are those of a server on which everything has happened.
func scrapedMetrics(t *testing.T) []*metric {
	t.Helper()
	w := newWorld(t, telemetry.Config{WaitSlots: 10})
	w.watchEverything(t)
	w.exercise(t)
	families, err := w.metrics.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []*metric
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), "fluxgate_") {
			continue
		}
		m := &metric{family.GetName(), strings.ToLower(family.GetType().String()), family.GetHelp(), map[string][]string{}}
		for _, series := range family.GetMetric() {
			for _, l := range series.GetLabel() {
				m.labels[l.GetName()] = append(m.labels[l.GetName()], l.GetValue())
			}
		}
		all = append(all, m)
	}
	return all
}

// docs/metrics.md is generated from a scrape, the alerts and the dashboard.
// UPDATE_GOLDEN=1 writes it.
func TestReference_Golden(t *testing.T) {
	all := scrapedMetrics(t)
	if len(all) < 50 {
		t.Fatalf("only %d metrics were found", len(all))
	}
	var b strings.Builder
	b.WriteString(referenceHead)
	writeLabels(&b)
	written := 0
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| metric | type | meaning | alerts | panels |\n|---|---|---|---|---|\n", s.title)
		for _, m := range all {
			if sectionOf(m.name) == s.title {
				writeMetric(t, &b, m)
				written++
			}
		}
	}
	if written != len(all) {
		t.Errorf("%d of %d metrics are in no section", len(all)-written, len(all))
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(reference, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if is, err := os.ReadFile(reference); err != nil || string(is) != b.String() {
		t.Errorf("docs/metrics.md differs from the metrics (%v): run UPDATE_GOLDEN=1 go test ./server/telemetry", err)
	}
}

func sectionOf(name string) string {
	for _, s := range sections {
		if regexp.MustCompile(s.pattern).MatchString(name) {
			return s.title
		}
	}
	return ""
}

func writeLabels(b *strings.Builder) {
	for _, l := range labels {
		name := "`" + l.name + "`"
		if l.metrics != nil {
			name += " of `" + strings.Join(l.metrics, "`, `") + "`"
		}
		values := ""
		if l.values != nil {
			values = "`" + strings.Join(l.values, "`, `") + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", name, l.text, values)
	}
}

func writeMetric(t *testing.T, b *strings.Builder, m *metric) {
	t.Helper()
	names := slices.Sorted(maps.Keys(m.labels))
	for _, name := range names {
		checkLabel(t, m, name)
	}
	shown := m.name
	if len(names) > 0 {
		shown += "{" + strings.Join(names, ", ") + "}"
	}
	uses := regexp.MustCompile(`\b` + m.name + `(_bucket|_count|_sum)?\b`)
	var fires, shows []string
	for _, a := range alerts(t) {
		if uses.MatchString(a.Expr) {
			fires = append(fires, fmt.Sprintf("[%s](runbooks.md#%s)", a.Alert, strings.ToLower(a.Alert)))
		}
	}
	for _, p := range dashboard(t) {
		if slices.ContainsFunc(p.Targets, func(target struct{ Expr string }) bool { return uses.MatchString(target.Expr) }) {
			shows = append(shows, p.Title)
		}
	}
	if len(shows) == 0 {
		t.Errorf("%s is nowhere on the dashboard", m.name)
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", shown, m.kind, m.help, strings.Join(fires, ", "), strings.Join(shows, "; "))
}

// checkLabel checks that the values of a label are documented.
func checkLabel(t *testing.T, m *metric, name string) {
	t.Helper()
	i := slices.IndexFunc(labels, func(l label) bool { return l.name == name && (l.metrics == nil || slices.Contains(l.metrics, m.name)) })
	if i < 0 {
		t.Errorf("the label %s of %s is not described", name, m.name)
		return
	}
	for _, value := range m.labels[name] {
		if labels[i].values != nil && !slices.Contains(labels[i].values, value) {
			t.Errorf("%s has %s=%q, which is not among %q", m.name, name, value, labels[i].values)
		}
	}
}

const referenceHead = `# Metrics

For operators who write alerts and dashboards: every metric of ` + "`GET /metrics`" + `, its labels, and the alerts and panels that use it.
[Operations](operations.md#metrics) has the scrape, the alerts and the dashboard. The tests of ` + "`server/telemetry`" + ` generate this page (` + "`UPDATE_GOLDEN=1`" + `).

The metrics of Go and of the process are exported too. ` + "`go_gc_heap_live_bytes`" + `, the memory in use after the last garbage collection, shows leaks.
[FluxgateDown](runbooks.md#fluxgatedown) fires when a scrape fails.

## Labels

The values of labels are bounded, and none is what a caller sends.

| label | meaning | values |
|---|---|---|
`

// outcomes are all values of the label outcome, in the order of the documentation.
func outcomes() (all []string) {
	decided := func(reason fluxgate.Reason) string {
		return meter.OutcomeOf(&fluxgate.Decision{Reason: reason}, nil).String()
	}
	for _, reason := range []fluxgate.Reason{
		fluxgate.ReasonOK, fluxgate.ReasonLimited, fluxgate.ReasonCostTooHigh, fluxgate.ReasonDenied, fluxgate.ReasonExempt, fluxgate.ReasonNoRule,
		fluxgate.ReasonNoRuleSet, fluxgate.ReasonBadPath, fluxgate.ReasonTooManyRules, fluxgate.ReasonMissingIdentity, fluxgate.ReasonStoreFailure,
	} {
		all = append(all, decided(reason))
	}
	for _, err := range []error{fluxgate.ErrCost, context.Canceled, io.ErrUnexpectedEOF} {
		all = append(all, meter.OutcomeOf(new(fluxgate.Decision), err).String())
	}
	return append(all, decided("a reason of another version"))
}

// sources are all values of the label source of fluxgate_decisions_total.
func sources() (all []string) {
	for _, from := range []store.Source{store.FromStore, store.FromLease, store.FromNegativeCache, store.FromFallback} {
		all = append(all, meter.SourceOf(&fluxgate.Decision{Band: "b", Source: from}))
	}
	return append(all, meter.SourceOf(new(fluxgate.Decision)))
}
