package ratelimitenv_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/fluxgate/fluxgate/internal/ratelimitenv"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/config"
)

// section is the text below a heading of docs/envoy.md.
func section(t *testing.T, heading string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", "envoy.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("there is no heading %q", heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// block is the only YAML block of a text.
func block(t *testing.T, text string) string {
	t.Helper()
	parts := strings.Split(text, "```yaml\n")
	if len(parts) != 2 {
		t.Fatalf("%d YAML blocks, want 1", len(parts)-1)
	}
	content, _, _ := strings.Cut(parts[1], "```")
	return content
}

// The documented configuration is valid, with certificates at other places.
func TestDocs_XDS(t *testing.T) {
	certs := testenv.NewCertificates(t)
	text := strings.NewReplacer("/certs/ca.crt", certs.CAFile, "/certs/tls.crt", certs.CertFile, "/certs/tls.key", certs.KeyFile).Replace(block(t, section(t, "xDS configuration")))
	file := filepath.Join(t.TempDir(), "fluxgate.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil || c.RuleSource() != config.SourceXDS || c.Rules.XDS.TLS.CAFile != certs.CAFile {
		t.Errorf("rules come from %s, error %v", c.RuleSource(), err)
	}
}

// The documented configuration of Envoy Gateway makes a deployment whose environment the
// program understands.
func TestDocs_EnvoyGateway(t *testing.T) {
	text := section(t, "In place of the rate limit service of Envoy Gateway")
	var documented struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Gateway    struct {
			ControllerName string `yaml:"controllerName"`
		}
		Provider struct {
			Type       string
			Kubernetes struct {
				RateLimitDeployment struct {
					Container struct {
						Image string
						Env   []struct{ Name, Value string }
					}
				} `yaml:"rateLimitDeployment"`
			}
		}
		RateLimit struct {
			Timeout string
			Backend struct {
				Type  string
				Redis struct{ URL string }
			}
		} `yaml:"rateLimit"`
	}
	decoder := yaml.NewDecoder(strings.NewReader(block(t, text)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&documented); err != nil {
		t.Fatal(err)
	}
	container := documented.Provider.Kubernetes.RateLimitDeployment.Container
	if documented.Kind != "EnvoyGateway" || container.Image == "" {
		t.Errorf("it is %+v", documented)
	}
	environ := append(gateway(testenv.NewCertificates(t)), "REDIS_URL="+documented.RateLimit.Backend.Redis.URL)
	meant := ratelimitenv.Translate(environ)
	if err := meant.Err(); err != nil {
		t.Fatal(err)
	}
	for _, e := range container.Env {
		environ = append(environ, e.Name+"="+e.Value)
	}
	c, err := config.Load(config.Sources{Values: meant.Values, Environ: environ})
	if err == nil {
		err = c.Check()
	}
	if err != nil {
		t.Error(err)
	}
	for _, port := range []string{c.Server.HTTP, c.Server.GRPC, c.Server.Metrics} {
		if !strings.Contains(text, "\n| "+strings.TrimPrefix(port, ":")+" (") {
			t.Errorf("the port %s is not documented", port)
		}
	}
	for _, r := range refused {
		if mistakes := "REDIS_URL CONFIG_TYPE REDIS_TYPE REDIS_TLS LOG_LEVEL GRPC_SERVER_USE_TLS"; !strings.Contains(mistakes, r.want) && !strings.Contains(text, "`"+r.want) {
			t.Errorf("%s is refused and not documented", r.want)
		}
	}
}
