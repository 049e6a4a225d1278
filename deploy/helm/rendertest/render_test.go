// Package rendertest renders the Helm chart, decodes what it renders strictly into the
// types of Kubernetes, and starts the rendered command lines. It is a module of its own,
// so that the libraries of Kubernetes are not among those of the product.
package rendertest

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	chartFolder = "../fluxgate"
	release     = "gate"
	namespace   = "edge"
)

// smallest are the values that every installation needs.
const smallest = `
redis: {uri: redis://redis:6379}
rules: {files: {rules.yaml: "id: api-limits\nrules: []\n"}}
`

func loadChart(t testing.TB) *chart.Chart {
	t.Helper()
	loaded, err := loader.LoadDir(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// values merges fragments of values.yaml; a later one overrides those before.
func values(t testing.TB, fragments ...string) map[string]any {
	t.Helper()
	merged := map[string]any{}
	for _, fragment := range fragments {
		next := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(fragment), &next); err != nil {
			t.Fatalf("%v in\n%s", err, fragment)
		}
		merged = chartutil.MergeTables(next, merged)
	}
	return merged
}

// rendered is what the chart renders.
type rendered struct {
	objects []object
	notes   string
}

// render renders the chart as helm install does, the check of values included.
func render(of *chart.Chart, values map[string]any) (rendered, error) {
	options := chartutil.ReleaseOptions{Name: release, Namespace: namespace, Revision: 3, IsInstall: true}
	all, err := chartutil.ToRenderValues(of, values, options, nil)
	if err != nil {
		return rendered{}, err
	}
	files, err := engine.Render(of, all)
	if err != nil {
		return rendered{}, err
	}
	var found rendered
	var problems []error
	for name, content := range files {
		if filepath.Base(name) == "NOTES.txt" {
			found.notes = content
			continue
		}
		for _, document := range releaseutil.SplitManifests(content) {
			decoded, err := decode(document)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", name, err))
			} else if decoded != nil {
				found.objects = append(found.objects, decoded)
			}
		}
	}
	slices.SortFunc(found.objects, func(a, b object) int { return strings.Compare(identify(a), identify(b)) })
	return found, errors.Join(problems...)
}

func mustRender(t testing.TB, fragments ...string) rendered {
	t.Helper()
	found, err := render(loadChart(t), values(t, fragments...))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestLint(t *testing.T) {
	for _, m := range lint.All(chartFolder, values(t, smallest), namespace, true).Messages {
		// Of lower severity is that the chart has no icon.
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
}

// A field that the type of an object does not have is an error, and so is one that is
// spelled in lower case.
func TestRender_MisspelledField(t *testing.T) {
	for _, wrong := range []string{"terminationGracePeriodSecond", "terminationgraceperiodseconds"} {
		changed := loadChart(t)
		for _, file := range changed.Templates {
			if filepath.Base(file.Name) == "deployment.yaml" {
				file.Data = []byte(strings.ReplaceAll(string(file.Data), "terminationGracePeriodSeconds", wrong))
			}
		}
		if _, err := render(changed, values(t, smallest)); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// The copies in the chart are those of the originals, which make chart copies: Helm reads
// no file outside of a chart.
func TestFiles_Copies(t *testing.T) {
	for original, copied := range map[string]string{
		"../../prometheus/alerts.yaml":           "files/alerts.yaml",
		"../../grafana/dashboards/fluxgate.json": "files/dashboards/fluxgate.json",
	} {
		if readFile(t, filepath.Join(chartFolder, copied)) != readFile(t, original) {
			t.Errorf("%s is not %s: run make chart", copied, original)
		}
	}
	originals, err := filepath.Glob("../../grafana/dashboards/*.json")
	if err != nil || len(originals) != 1 {
		t.Errorf("the dashboards are %v, %v", originals, err)
	}
}

// The rendered alerts and the dashboard are those of the files.
func TestRender_Monitoring(t *testing.T) {
	found := mustRender(t, smallest, "prometheusRule: {enabled: true}\ndashboard: {enabled: true}")
	var alerts monitoringv1.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict([]byte(readFile(t, "../../prometheus/alerts.yaml")), &alerts); err != nil {
		t.Fatal(err)
	}
	if rule := one[monitoringv1.PrometheusRule](found); rule == nil || len(alerts.Groups) == 0 || !reflect.DeepEqual(rule.Spec, alerts) {
		t.Error("the alerts are others")
	}
	dashboard := all[corev1.ConfigMap](found)["gate-fluxgate-dashboard"]
	want := strings.TrimSpace(readFile(t, "../../grafana/dashboards/fluxgate.json"))
	if dashboard == nil || strings.TrimSpace(dashboard.Data["fluxgate.json"]) != want {
		t.Error("the dashboard is another one")
	}
}
