package telemetry_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/fluxgate/fluxgate/server/telemetry"
)

const deployed = "../../deploy/"

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

// pages are those of the documentation.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"../../docs/*.md", "../../docs/*/*.md"} {
		matching, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, matching...)
	}
	if len(found) < 20 {
		t.Fatalf("only %d pages were found", len(found))
	}
	return found
}

// Dashboard, alerts and documentation name only metrics that exist.
func TestDeploy_KnownMetrics(t *testing.T) {
	exist := existing(t)
	shipped := []string{
		deployed + "grafana/dashboards/fluxgate.json", deployed + "prometheus/alerts.yaml", deployed + "prometheus/alerts_test.yaml", reference,
	}
	for _, file := range append(shipped, pages(t)...) {
		if filepath.Base(file) == "proxies.md" {
			continue // its variables of proxies have such names
		}
		found := metricName.FindAllString(readFile(t, file), -1)
		if len(found) == 0 && slices.Contains(shipped, file) {
			t.Errorf("%s names no metric", file)
		}
		for _, name := range found {
			if !exist[name] && !exist[name+"_count"] {
				t.Errorf("%s names %s, which is no metric", file, name)
			}
		}
	}
}

// The inhibit rules of the documentation name alerts that exist, by labels that both sides
// have: Alertmanager takes two missing labels for equal ones.
func TestDeploy_InhibitRules(t *testing.T) {
	var file struct {
		InhibitRules []struct {
			Source []string `yaml:"source_matchers"`
			Target []string `yaml:"target_matchers"`
			Equal  []string
		} `yaml:"inhibit_rules"`
	}
	_, text, _ := strings.Cut(readFile(t, "../../docs/operations.md"), "```yaml\n# alertmanager.yaml\n")
	text, _, _ = strings.Cut(text, "```")
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil || len(file.InhibitRules) == 0 {
		t.Fatalf("%d rules, %v", len(file.InhibitRules), err)
	}
	labels := map[string][]string{}
	for _, a := range alerts(t) {
		labels[a.Alert] = labelsOf(t, a.Expr)
	}
	matcher := regexp.MustCompile(`^alertname=~?"([A-Za-z|]+)"$`)
	for _, r := range file.InhibitRules {
		for _, m := range slices.Concat(r.Source, r.Target) {
			found := matcher.FindStringSubmatch(m)
			if found == nil || len(r.Equal) == 0 || len(r.Source)*len(r.Target) != 1 {
				t.Fatalf("%+v", r)
			}
			for name := range strings.SplitSeq(found[1], "|") {
				for _, label := range r.Equal {
					if !slices.Contains(labels[name], label) {
						t.Errorf("the alert %s does not have the label %s: %q", name, label, labels[name])
					}
				}
			}
		}
	}
}

// labelsOf returns the labels of an alert: those that it aggregates by, or those of its
// first metric and of the scrape.
func labelsOf(t *testing.T, expr string) []string {
	t.Helper()
	if by := regexp.MustCompile(`by \(([a-z_, ]+)\)`).FindStringSubmatch(expr); by != nil {
		return strings.Split(by[1], ", ")
	}
	w := newWorld(t, telemetry.Config{WaitSlots: 10})
	w.watchEverything(t)
	w.exercise(t)
	name := metricName.FindString(expr)
	for series := range scrape(t, w.metrics) {
		if strings.HasPrefix(series, name+"{") {
			labels := []string{"job", "instance"}
			for _, l := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(series, -1) {
				labels = append(labels, l[1])
			}
			return labels
		}
	}
	return []string{"job", "instance"}
}

// Every alert says what to do, and the documentation names only alerts that exist.
func TestDeploy_Alerts(t *testing.T) {
	known := map[string]bool{}
	for _, a := range alerts(t) {
		known[a.Alert] = true
		if text := a.Annotations["description"]; a.Annotations["summary"] == "" || len(text) < 30 || len(text) > 130 {
			t.Errorf("%s does not say in a line what it means: %q", a.Alert, text)
		}
		if url := "https://fluxgate.github.io/fluxgate/runbooks#" + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != url {
			t.Errorf("the runbook of %s is %q, want %s", a.Alert, a.Annotations["runbook_url"], url)
		}
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has severity %q", a.Alert, s)
		}
	}
	for _, page := range pages(t) {
		for _, name := range regexp.MustCompile(`\bFluxgate[A-Z][A-Za-z]+\b`).FindAllString(readFile(t, page), -1) {
			if !known[name] {
				t.Errorf("%s names the alert %s, which does not exist", page, name)
			}
		}
	}
}

// Every alert has a runbook with its parts, and every runbook an alert.
func TestRunbooks_Sections(t *testing.T) {
	sections := strings.Split(readFile(t, "../../docs/runbooks.md"), "\n## Fluxgate")[1:] // after one about rejected requests
	if len(sections) != len(alerts(t)) {
		t.Errorf("%d runbooks for %d alerts", len(sections), len(alerts(t)))
	}
	for i, a := range alerts(t) {
		if i == len(sections) {
			break
		}
		name, text, _ := strings.Cut("Fluxgate"+sections[i], "\n")
		if name != a.Alert {
			t.Errorf("runbook %d is %s, and the alert is %s", i+1, name, a.Alert)
		}
		for _, part := range []string{"\n**Callers** ", "\n| run | look for |\n", "\n**Over** when "} {
			if strings.Count(text, part) != 1 {
				t.Errorf("the runbook of %s does not have %q once", name, part)
			}
		}
	}
}
