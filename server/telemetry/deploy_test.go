package telemetry_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/fluxgate/fluxgate/server/telemetry"
)

const (
	deployed   = "../../deploy/"
	operations = "../../docs/operations.md"
)

// metricName finds the metrics that a text speaks of.
var metricName = regexp.MustCompile(`\b(?:fluxgate|go|process)_[a-z0-9_]+\b`)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// existing are all names that a scrape of a gateway has, the parts of
// histograms included.
func existing(t *testing.T) map[string]bool {
	t.Helper()
	w := newWorld(t, telemetry.Config{WaitSlots: 10})
	w.watchEverything(t)
	w.exercise(t)
	names := map[string]bool{}
	for series := range scrape(t, w.metrics) {
		name, _, _ := strings.Cut(series, "{")
		names[name] = true
	}
	return names
}

type panel struct {
	Title   string
	Type    string
	Targets []struct{ Expr string }
}

func dashboard(t *testing.T) []panel {
	t.Helper()
	var d struct {
		SchemaVersion int
		UID           string
		Panels        []panel
		Templating    struct {
			List []struct{ Name, Type string }
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, deployed+"grafana/dashboards/fluxgate.json")), &d); err != nil {
		t.Fatal(err)
	}
	if d.SchemaVersion < 36 || d.UID == "" || len(d.Panels) == 0 || d.Templating.List[0].Type != "datasource" {
		t.Errorf("the dashboard has schema %d, uid %q, %d panels, variables %v", d.SchemaVersion, d.UID, len(d.Panels), d.Templating.List)
	}
	return slices.DeleteFunc(d.Panels, func(p panel) bool { return p.Type == "row" })
}

type alert struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alert }
	}
	if err := yaml.Unmarshal([]byte(readFile(t, deployed+"prometheus/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// Dashboard and alerts name only metrics that exist.
func TestDeploy_KnownMetrics(t *testing.T) {
	exist := existing(t)
	for _, file := range []string{
		deployed + "grafana/dashboards/fluxgate.json", deployed + "prometheus/alerts.yaml", deployed + "prometheus/alerts_test.yaml", operations,
	} {
		found := metricName.FindAllString(readFile(t, file), -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, name := range found {
			if !exist[name] && !exist[name+"_count"] {
				t.Errorf("%s names %s, which is no metric", file, name)
			}
		}
	}
}

// Every metric is in the table and on the dashboard.
func TestDeploy_AllMetrics(t *testing.T) {
	w := newWorld(t, telemetry.Config{WaitSlots: 10})
	w.watchEverything(t)
	w.exercise(t)
	text, board := readFile(t, operations), readFile(t, deployed+"grafana/dashboards/fluxgate.json")
	all := families(t, scrapeText(t, w.metrics))
	if len(all) < 30 {
		t.Fatalf("only %d metrics were found", len(all))
	}
	for name, kind := range all {
		row := regexp.MustCompile("(?m)^\\| `" + name + "[`{]").FindStringIndex(text)
		if row == nil {
			t.Errorf("%s has no row in the table of %s", name, operations)
			continue
		}
		line, _, _ := strings.Cut(text[row[0]:], "\n")
		if !strings.Contains(line, "| "+kind+" |") {
			t.Errorf("%s is a %s, and the table says:\n%s", name, kind, line)
		}
		if !strings.Contains(board, name) {
			t.Errorf("%s is nowhere on the dashboard", name)
		}
	}
}

// The documented labels are those of the metrics.
func TestDeploy_Labels(t *testing.T) {
	w := newWorld(t, telemetry.Config{WaitSlots: 10})
	w.watchEverything(t)
	w.exercise(t)
	text := readFile(t, operations)
	for series := range scrape(t, w.metrics) {
		name, labels, _ := strings.Cut(series, "{")
		for _, part := range []string{"_bucket", "_count", "_sum"} {
			name = strings.TrimSuffix(name, part)
		}
		if !strings.HasPrefix(name, "fluxgate_") {
			continue
		}
		var want []string
		for _, m := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(labels, -1) {
			if m[1] != "le" {
				want = append(want, m[1])
			}
		}
		got := regexp.MustCompile("(?m)^\\| `" + name + "(?:\\{([a-z_, ]+)\\})?`").FindStringSubmatch(text)
		if got == nil {
			continue // another test says so
		}
		have := strings.FieldsFunc(got[1], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Errorf("%s has the labels %q, and the table says %q", name, want, have)
		}
	}
}

// Every alert has a remedy and is in the table.
func TestDeploy_Alerts(t *testing.T) {
	text := readFile(t, operations)
	for _, a := range alerts(t) {
		if a.Annotations["summary"] == "" || len(a.Annotations["runbook"]) < 30 {
			t.Errorf("%s does not say what to do", a.Alert)
		}
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has severity %q", a.Alert, s)
		}
		if !strings.Contains(text, "`"+a.Alert+"`") {
			t.Errorf("%s is not in %s", a.Alert, operations)
		}
	}
	for _, name := range regexp.MustCompile("`(Fluxgate[A-Za-z]+)`").FindAllStringSubmatch(text, -1) {
		if !slices.ContainsFunc(alerts(t), func(a alert) bool { return a.Alert == name[1] }) {
			t.Errorf("%s names the alert %s, which there is not", operations, name[1])
		}
	}
}
