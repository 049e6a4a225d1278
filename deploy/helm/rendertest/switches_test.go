package rendertest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A switch is a choice between values. Every documented switch is here.
type choice struct{ name, values string }

var switches = []struct {
	name    string
	choices []choice
}{
	{"redis", []choice{
		{"off", "redis: {enabled: false}"},
		{"address", "redis: {uri: 'redis://redis:6379'}"},
		{"secret", "redis: {existingSecret: redis}"},
		{"password", "redis: {uri: 'rediss://fluxgate:$(REDIS_PASSWORD)@redis-0:6379,redis-1:6379', existingSecret: redis, passwordKey: password}"},
		{"credentials", "redis: {uri: 'rediss://redis:6379', credentials: {existingSecret: login, usernameKey: username}}"},
	}},
	{"redis-tls", []choice{
		{"no", ""},
		{"ca", "redis: {tls: {existingSecret: redis-tls}}"},
		{"client", "redis: {tls: {existingSecret: redis-tls, clientCertificate: true}}"},
	}},
	{"key-secret", onOff("redis: {keySecret: {existingSecret: key-secret}}")},
	{"mongo", []choice{
		{"off", ""},
		{"address", "mongo: {enabled: true, uri: 'mongodb://mongo:27017/fluxgate'}"},
		{"secret", "mongo: {enabled: true, existingSecret: mongo, tls: {existingSecret: mongo-tls}}"},
		{"credentials", "mongo: {enabled: true, uri: 'mongodb://mongo:27017/fluxgate', credentials: {existingSecret: login}}"},
	}},
	{"rules", []choice{
		{"files", "rules: {files: {rules.yaml: \"id: api-limits\\nrules: []\\n\"}}"},
		{"configmap", "rules: {existingConfigMap: existing-rules}"},
		{"envoy", "rules: {source: envoyFiles, files: {edge.yaml: \"domain: edge\\n\"}}"},
		{"https", "rules: {source: git, git: {repo: 'https://git.example.com/rules.git', existingSecret: git}}"},
		{"ssh", "rules: {source: git, git: {repo: 'ssh://git@git.example.com/rules.git', existingSecret: git, schedule: ''}}"},
		{"mongo", "rules: {source: mongo}"},
		{"redis", "rules: {source: redis}"},
		{"xds", "rules: {source: xds, xds: {server: 'control:18001', existingSecret: xds-tls}}"},
	}},
	{"grpc", onOff("grpc: {enabled: true}")},
	{"admin", onOff("admin: {enabled: true, hosts: [limits.example.com]}")},
	{"tls", []choice{
		{"no", ""},
		{"server", "tls: {existingSecret: tls}"},
		{"mutual", "tls: {existingSecret: tls, clientCAKey: ca.crt}"},
	}},
	{"auth", []choice{
		{"no", ""},
		{"tokens", "auth: {tokens: {existingSecret: tokens}}"},
		{"oidc", "auth: {oidc: {issuer: 'https://login.example.com', audience: fluxgate, existingSecret: oidc, config: {roles-claim: groups}}}"},
	}},
	{"receipts", onOff("receipts: {existingSecret: receipts}")},
	{"events", onOff("events: {existingSecret: events}")},
	{"autoscaling", onOff("autoscaling: {enabled: true}")},
	{"budget", onOff("podDisruptionBudget: {enabled: false}")},
	{"spread", onOff("topologySpread: {enabled: false}")},
	{"network", []choice{
		{"off", ""},
		{"on", "networkPolicy: {enabled: true}"},
		{"peers", `networkPolicy:
  enabled: true
  clients: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress}}}]
  admin: [{podSelector: {matchLabels: {app: console}}}]
  metrics: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]
  redis: [{podSelector: {matchLabels: {app: redis}}}]
  mongo: [{ipBlock: {cidr: 192.0.2.0/24}}]
  extraEgress: [{ports: [{protocol: TCP, port: 4318}]}]`},
	}},
	{"monitor", []choice{
		{"off", ""},
		{"on", "serviceMonitor: {enabled: true, labels: {release: prometheus}}"},
		{"token", "serviceMonitor: {enabled: true, existingSecret: token}"},
	}},
	{"alerts", onOff("prometheusRule: {enabled: true, labels: {release: prometheus}}")},
	{"dashboard", onOff("dashboard: {enabled: true}")},
	{"test", []choice{{"off", "test: {enabled: false}"}, {"on", ""}, {"token", "test: {existingSecret: token}"}}},
	{"account", onOff("serviceAccount: {create: false, name: existing}")},
	{"service", []choice{{"cluster", ""}, {"headless", "service: {headless: true}"}, {"balancer", "service: {type: LoadBalancer, annotations: {a/b: c}}"}}},
	{"pod", onOff(`
image: {tag: 1.2.3}
imagePullSecrets: [{name: registry}]
podLabels: {team: edge}
podAnnotations: {a/b: c}
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: edge, operator: Exists}]
affinity: {nodeAffinity: {}}
priorityClassName: high
extraEnv: [{name: GOGC, value: "200"}]
extraVolumes: [{name: extra, emptyDir: {}}]
extraVolumeMounts: [{name: extra, mountPath: /extra}]
config: {ratelimit: {trusted-proxies: [10.0.0.0/8]}, server: {max-body: 10485760}}`)},
	{"name", onOff("fullnameOverride: the-rate-limits-of-the-edge-of-the-example-company-in-europe")},
}

func onOff(values string) []choice { return []choice{{"off", ""}, {"on", values}} }

// A combination has the name of a choice for each switch.
type combination map[string]string

func randomCombination(random *rand.Rand) combination {
	c := combination{}
	for _, s := range switches {
		c[s.name] = s.choices[random.IntN(len(s.choices))].name
	}
	return c
}

func (c combination) values() (fragments []string) {
	for _, s := range switches {
		i := slices.IndexFunc(s.choices, func(o choice) bool { return o.name == c[s.name] })
		fragments = append(fragments, s.choices[i].values)
	}
	return fragments
}

func (c combination) String() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%s=%s ", key, c[key])
	}
	return b.String()
}

// refused reports whether the chart refuses choices, of all switches or of some.
func (c combination) refused() bool {
	asks := c["auth"] == "tokens" || c["auth"] == "oidc"
	git := c["rules"] == "https" || c["rules"] == "ssh"
	return c["rules"] == "mongo" && c["mongo"] == "off" ||
		c["rules"] == "redis" && c["redis"] == "off" ||
		git && c["mongo"] == "off" && c["redis"] == "off" ||
		c["redis"] == "address" && (c["redis-tls"] == "ca" || c["redis-tls"] == "client") ||
		c["admin"] == "on" && c["auth"] == "no" && (c["tls"] == "no" || c["tls"] == "server") ||
		c["monitor"] == "on" && asks
}

const rows = 400

// combinations are random ones that the chart accepts. Each pair of choices that it accepts
// is in at least one: of all combinations there are too many.
func combinations(t *testing.T) []combination {
	t.Helper()
	random := rand.New(rand.NewPCG(18, 3))
	pairs := map[[4]string]bool{}
	var found []combination
	for len(found) < rows {
		c := randomCombination(random)
		if c.refused() {
			continue
		}
		found = append(found, c)
		for a, x := range c {
			for b, y := range c {
				pairs[[4]string{a, x, b, y}] = true
			}
		}
	}
	count := 0
	for i, a := range switches {
		for _, b := range switches[:i] {
			for _, x := range a.choices {
				for _, y := range b.choices {
					if pairs[[4]string{a.name, x.name, b.name, y.name}] {
						count++
					} else if !(combination{a.name: x.name, b.name: y.name}).refused() {
						t.Errorf("no combination has %s=%s and %s=%s", a.name, x.name, b.name, y.name)
					}
				}
			}
		}
	}
	t.Logf("%d combinations of %d switches have all %d pairs of choices", len(found), len(switches), count)
	return found
}

// Every combination renders to objects that decode strictly and refer to each other, with a
// configuration that the server accepts.
func TestRender_Combinations(t *testing.T) {
	of := loadChart(t)
	secrets := testSecrets(t)
	for _, c := range combinations(t) {
		found, err := render(of, values(t, c.values()...))
		if err != nil {
			t.Fatalf("%v\n%v", c, err)
		}
		for _, problem := range found.references(secrets) {
			t.Errorf("%v\n%s", c, problem)
		}
		for _, problem := range found.hardening() {
			t.Errorf("%v\n%s", c, problem)
		}
		if err := checkConfig(t, found, secrets); err != nil {
			t.Errorf("%v\n%v", c, err)
		}
		if t.Failed() {
			return
		}
	}
}

// The chart refuses what the test says that it does.
func TestRender_RefusedCombinations(t *testing.T) {
	of := loadChart(t)
	random := rand.New(rand.NewPCG(18, 4))
	for refused := 0; refused < 50; {
		c := randomCombination(random)
		if !c.refused() {
			continue
		}
		refused++
		if _, err := render(of, values(t, c.values()...)); err == nil {
			t.Errorf("not refused: %v", c)
		}
	}
}

// Every value of a choice has an effect: without it, the chart renders something else in some
// combination, or refuses all of them.
func TestRender_EveryValue(t *testing.T) {
	of := loadChart(t)
	rows := combinations(t)
	for _, s := range switches {
		for _, o := range s.choices {
			for _, path := range leaves(values(t, o.values)) {
				accepted, differs := false, false
				for _, c := range rows {
					if c[s.name] != o.name || differs {
						continue
					}
					if without, err := render(of, c.valuesWithout(t, path)); err == nil {
						with, err := render(of, values(t, c.values()...))
						accepted, differs = true, err == nil && !reflect.DeepEqual(with.objects, without.objects)
					}
				}
				if accepted && !differs {
					t.Errorf("%s=%s: %s has no effect", s.name, o.name, strings.Join(path, "."))
				}
			}
		}
	}
}

// leaves are the paths of the values that are not maps, or empty ones.
func leaves(values map[string]any) (paths [][]string) {
	for name, value := range values {
		inner, _ := value.(map[string]any)
		if len(inner) == 0 {
			paths = append(paths, []string{name})
		}
		for _, path := range leaves(inner) {
			paths = append(paths, append([]string{name}, path...))
		}
	}
	return paths
}

// valuesWithout returns the values of a combination without the one at a path.
func (c combination) valuesWithout(t *testing.T, path []string) map[string]any {
	t.Helper()
	all := values(t, c.values()...)
	parent, last := all, len(path)-1
	for _, name := range path[:last] {
		parent = parent[name].(map[string]any)
	}
	delete(parent, path[last])
	return all
}
