package envoyratelimit_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func readYAML(t *testing.T, file string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// decode reads a tree as Envoy does: unknown fields are errors, and constraints hold.
func decode(t *testing.T, tree any, m interface {
	proto.Message
	ValidateAll() error
},
) {
	t.Helper()
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(text, m); err != nil {
		t.Fatal(err)
	}
	if err := m.ValidateAll(); err != nil {
		t.Fatal(err)
	}
}

// The configurations for Envoy and Istio consist of fields that Envoy knows.
func TestDeploy_Envoy(t *testing.T) {
	var b bootstrap.Bootstrap
	decode(t, readYAML(t, "../../deploy/envoy/envoy.yaml"), &b)
	if n := len(b.GetStaticResources().GetClusters()); n != 2 {
		t.Errorf("%d clusters", n)
	}
	patches := readYAML(t, "../../deploy/envoy/istio.yaml")["spec"].(map[string]any)["configPatches"].([]any)
	value := func(i int) any { return patches[i].(map[string]any)["patch"].(map[string]any)["value"] }
	decode(t, value(0), new(hcm.HttpFilter))
	host := value(1).(map[string]any)
	host["name"], host["domains"] = "any", []string{"*"} // which the patch is merged into
	decode(t, host, new(route.VirtualHost))
}

// The YAML of docs/envoy.md is that of the configuration.
func TestDeploy_Docs(t *testing.T) {
	lines := func(text string) map[string]bool {
		all := map[string]bool{}
		for line := range strings.Lines(text) {
			all[strings.TrimSpace(line)] = true
		}
		return all
	}
	page, err := os.ReadFile("../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("../../deploy/envoy/envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	known, compared := lines(string(file)), 0
	for _, section := range []string{"## Configure Envoy", "## Charges after the response"} {
		_, rest, _ := strings.Cut(string(page), section)
		_, rest, _ = strings.Cut(rest, "```yaml\n")
		block, _, _ := strings.Cut(rest, "```")
		for line := range lines(block) {
			if compared++; !known[line] {
				t.Errorf("%s: %s is not in envoy.yaml", section, line)
			}
		}
	}
	if compared < 15 {
		t.Errorf("%d lines were compared", compared)
	}
}
