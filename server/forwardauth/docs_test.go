package forwardauth_test

import (
	"os"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/server/forwardauth"
	"go.yaml.in/yaml/v3"
)

const (
	page    = "../../docs/proxies.md"
	folder  = "../../deploy/proxies"
	traefik = folder + "/traefik.yaml"
)

// docs/proxies.md leads to every file of deploy/proxies. It has no copies of them.
func TestDocs_TestedFiles(t *testing.T) {
	text := readFile(t, page)
	if strings.Contains(text, "```") {
		t.Errorf("%s shows a configuration that no test runs", page)
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		if !strings.Contains(text, "(../deploy/proxies/"+file.Name()+")") {
			t.Errorf("%s does not lead to %s", page, file.Name())
		}
	}
}

// The Traefik file uses the endpoint and passes no upgrade to HTTP/2. Traefik
// itself is not run.
func TestDocs_Traefik(t *testing.T) {
	var config struct {
		HTTP struct {
			Routers map[string]struct {
				Rule        string
				Middlewares []string
			}
			Middlewares map[string]struct {
				ForwardAuth struct {
					Address            string
					TrustForwardHeader bool `yaml:"trustForwardHeader"`
				} `yaml:"forwardAuth"`
			}
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, traefik)), &config); err != nil {
		t.Fatal(err)
	}
	if rule := config.HTTP.Routers["app"].Rule; !strings.HasSuffix(rule, " && !HeaderRegexp(`Upgrade`, `(?i)h2c`)") {
		t.Errorf("upgrades to HTTP/2 pass the rule %s", rule)
	}
	asks := config.HTTP.Routers["app"].Middlewares
	if len(asks) != 1 {
		t.Fatalf("the router has %v", asks)
	}
	middleware := config.HTTP.Middlewares[asks[0]].ForwardAuth
	if !strings.HasSuffix(middleware.Address, forwardauth.Path+"?ruleSet=api-limits") || middleware.TrustForwardHeader {
		t.Errorf("it is %+v", middleware)
	}
}
