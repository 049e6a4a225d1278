package rendertest

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	envoyv1alpha1 "github.com/envoyproxy/gateway/api/v1alpha1"
	"helm.sh/helm/v3/pkg/strvals"
	corev1 "k8s.io/api/core/v1"
	kubejson "sigs.k8s.io/json"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

const (
	tree        = "../../.." // the root of the repository
	exampleRule = tree + "/examples/rules.yaml"
)

func readFile(t testing.TB, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// blocks are the fenced blocks of a language in a page.
func blocks(t testing.TB, page, language string) (found []string) {
	t.Helper()
	fences := strings.Split("\n"+readFile(t, filepath.Join(tree, page)), "\n```")
	for i := 1; i < len(fences); i += 2 {
		if head, body, _ := strings.Cut(fences[i], "\n"); head == language {
			found = append(found, body)
		}
	}
	return found
}

var word = regexp.MustCompile(`'[^']*'|\S+`)

// commands are the commands of a page in words, without quotes.
func commands(t testing.TB, page string) (found [][]string) {
	t.Helper()
	for _, block := range blocks(t, page, "sh") {
		for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
			words := word.FindAllString(line, -1)
			for i := range words {
				words[i] = strings.Trim(words[i], "'")
			}
			found = append(found, words)
		}
	}
	return found
}

// complete adds what a block of values leaves out: the address of Redis, and rules.
func complete(t testing.TB, block map[string]any) map[string]any {
	t.Helper()
	base := values(t, smallest)
	if redis, _ := block["redis"].(map[string]any); redis["uri"] != nil || redis["existingSecret"] != nil {
		delete(base, "redis")
	}
	if block["rules"] != nil {
		delete(base, "rules")
	}
	maps.Copy(base, block)
	return base
}

// documentedSecrets are those that the kubectl commands of a page create, with content that
// a server accepts.
func documentedSecrets(t testing.TB, page string) map[string]map[string]string {
	t.Helper()
	content := map[string]string{"uri": "mongodb://fluxgate:PASSWORD@mongo-0,mongo-1/fluxgate?replicaSet=rs0"}
	for name, secret := range testSecrets(t) {
		if name != "redis" && name != "mongo" {
			maps.Copy(content, secret)
		}
	}
	found := map[string]map[string]string{}
	for _, words := range commands(t, page) {
		at := slices.Index(words, "generic")
		if words[0] != "kubectl" || at < 0 {
			continue
		}
		keys := map[string]string{}
		for _, flag := range words[at+2:] {
			_, what, _ := strings.Cut(flag, "=")
			key, _, _ := strings.Cut(what, "=")
			if keys[key] = content[key]; keys[key] == "" {
				t.Errorf("%v: nothing reads the key %q", words, key)
			}
		}
		found[words[at+1]] = keys
	}
	return found
}

// Every block of values in docs/kubernetes.md renders, with the Secrets that the page
// creates, to a configuration that the server accepts.
func TestDocs_Values(t *testing.T) {
	const page = "docs/kubernetes.md"
	of, secrets := loadChart(t), documentedSecrets(t, page)
	found := blocks(t, page, "yaml")
	for _, block := range found {
		all := complete(t, values(t, block))
		rendered, err := render(of, all)
		if err != nil {
			t.Errorf("%v\n%s", err, block)
			continue
		}
		for _, problem := range rendered.references(secrets) {
			t.Errorf("%s\n%s", problem, block)
		}
		if err := checkConfig(t, rendered, secrets); err != nil {
			t.Errorf("%v\n%s", err, block)
		}
		files, _ := all["rules"].(map[string]any)["files"].(map[string]any)
		for name, content := range files {
			if _, err := filerules.Parse(name, []byte(content.(string))); err != nil {
				t.Error(err)
			}
		}
	}
	if len(found) < 12 || len(secrets) < 8 {
		t.Errorf("found %d blocks and %d Secrets", len(found), len(secrets))
	}
}

// Every helm command of docs/kubernetes.md that installs the chart renders.
func TestDocs_HelmCommands(t *testing.T) {
	of, count := loadChart(t), 0
	for _, words := range commands(t, "docs/kubernetes.md") {
		if words[0] != "helm" || words[1] != "install" && words[1] != "upgrade" {
			continue
		}
		count++
		set, files := map[string]any{}, []string{}
		var problems []error
		for i, word := range words {
			switch word {
			case "--set":
				problems = append(problems, strvals.ParseInto(words[i+1], set))
			case "--set-file":
				problems = append(problems, strvals.ParseIntoFile(words[i+1], set, func([]rune) (any, error) { return readFile(t, exampleRule), nil }))
			case "-f":
				files = append(files, readFile(t, filepath.Join(tree, words[i+1])))
			}
		}
		if strings.HasPrefix(words[3], "oci://") { // the chart of Envoy Gateway: see TestExamples
			continue
		}
		all := values(t, files...)
		maps.Copy(all, set)
		if slices.Contains(words, "--reset-then-reuse-values") {
			all = complete(t, all)
		}
		_, err := render(of, all)
		if err := errors.Join(append(problems, err)...); err != nil || words[3] != "deploy/helm/fluxgate" {
			t.Errorf("%v: %v", words, err)
		}
	}
	if count < 5 {
		t.Errorf("found %d commands", count)
	}
}

// The manifests of the examples decode strictly, and the values render.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*/*.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, file := range files {
		content := readFile(t, file)
		switch filepath.Base(file) {
		case "values.yaml":
			if _, err := render(loadChart(t), complete(t, values(t, content))); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		case "gateway-helm-values.yaml":
			spec, err := json.Marshal(values(t, content)["config"].(map[string]any)["envoyGateway"])
			if err != nil {
				t.Fatal(err)
			}
			strict, err := kubejson.UnmarshalStrict(spec, &envoyv1alpha1.EnvoyGatewaySpec{})
			if err := errors.Join(append(strict, err)...); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		default:
			for _, document := range strings.Split(content, "\n---\n") {
				if o, err := decode(document); err != nil || o == nil {
					t.Errorf("%s: %v", file, err)
				}
			}
		}
	}
}

// The request that the annotations of the Ingress make gets a decision, and a rejection that
// nginx understands. The test sends what ingress-nginx would.
func TestExamples_NginxIngress(t *testing.T) {
	const folder = "../examples/nginx-ingress/"
	documents := strings.Split(readFile(t, folder+"ingress.yaml"), "\n---\n")
	headers, err := decode(documents[0])
	if err != nil {
		t.Fatal(err)
	}
	ingress, err := decode(documents[1])
	if err != nil {
		t.Fatal(err)
	}
	annotation := func(name string) string { return ingress.GetAnnotations()["nginx.ingress.kubernetes.io/"+name] }
	if named := annotation("auth-proxy-set-headers"); named != headers.GetNamespace()+"/"+headers.GetName() {
		t.Errorf("the headers are in %s", named)
	}
	path, there := strings.CutPrefix(annotation("auth-url"), "http://fluxgate.fluxgate.svc.cluster.local:8080")
	if !there {
		t.Errorf("the URL is %s", annotation("auth-url"))
	}

	// Requests of this test come from loopback.
	found := mustRender(t, "redis: {enabled: false}", fiveAnHour, readFile(t, folder+"values.yaml"), "config: {ratelimit: {trusted-proxies: [127.0.0.1]}}")
	server := start(t, found, nil)
	server.awaitReady(t)
	variables := strings.NewReplacer("$request_method", "GET", "$request_uri", "/api/orders?page=2", "$host", "shop.example.com")
	sent := map[string]string{
		"X-Forwarded-For": "192.0.2.1", "X-Real-IP": "192.0.2.1", "X-Original-Method": "GET", "X-Sent-From": "nginx-ingress-controller",
		"X-Original-URL": "http://shop.example.com/api/orders?page=2", "X-Auth-Request-Redirect": "/api/orders?page=2",
	}
	for name, value := range headers.(*corev1.ConfigMap).Data {
		sent[name] = variables.Replace(value)
	}
	for i := range 6 {
		status, answer := request(t, "http://"+server.addresses[8080]+path, sent)
		if i < 5 && status != 204 || i == 5 && (status != 403 || answer.Get("X-Fluxgate-Status") != "429") {
			t.Errorf("request %d: %d %v", i, status, answer)
		}
	}
}

// The requests of docs/compose.md get an answer from a server with the configuration of
// compose.yaml.
func TestDocs_Compose(t *testing.T) {
	redis, address := testenv.StartStandalone(t, testenv.Config{}), testenv.FreeAddr(t)
	testenv.StartProgram(t, testenv.Fluxgate(t), "serve", "--config", testenv.Root(t)+"/deploy/fluxgate.yaml",
		"--set", "redis.uri="+redis.URI(), "--set", "server.http="+address, "--set", "server.admin=", "--set", "rules.file="+testenv.Root(t)+"/examples/rules.yaml")
	testenv.Eventually(t, "the server is ready", func() bool { return get("http://"+address+"/readyz", "") == 200 })
	asked := 0
	for _, words := range commands(t, "docs/compose.md") {
		switch {
		case words[0] == "curl":
			asked++
			for i := range words {
				words[i] = strings.Replace(words[i], "localhost:8080", "http://"+address, 1)
			}
			out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).Output()
			if answer := string(out); err != nil || !strings.Contains(answer, `"allowed":true`) && !strings.Contains(answer, `"status": "up"`) {
				t.Errorf("%v: %v\n%s", words, err, answer)
			}
		case words[0] == "export": // for all that follow
		case !slices.Contains(words, "deploy/compose.yaml"):
			t.Errorf("%v is not about deploy/compose.yaml", words)
		}
	}
	if asked != 2 {
		t.Errorf("%d requests were sent", asked)
	}
}
