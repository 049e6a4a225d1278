package forwardauth_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// docs/proxies.md links to every file of deploy/proxies and shows those that users
// edit, which the script of HAProxy is not. It shows nothing else.
func TestDocs_TestedFiles(t *testing.T) {
	text := readFile(t, page)
	var shown []string
	for _, block := range regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```\n").FindAllStringSubmatch(text, -1) {
		if block[1] != "mermaid" {
			shown = append(shown, block[2])
		}
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !strings.Contains(text, "(../deploy/proxies/"+file.Name()+")") {
			t.Errorf("%s does not lead to %s", page, file.Name())
		}
		if file.Name() == "fluxgate.lua" {
			continue
		}
		snippet := readFile(t, filepath.Join(folder, file.Name()))
		i := slices.Index(shown, snippet)
		if i < 0 {
			t.Errorf("%s does not show %s as it is", page, file.Name())
			continue
		}
		shown = slices.Delete(shown, i, i+1)
	}
	for _, block := range shown {
		t.Errorf("this is shown, and no file has it:\n%s", block)
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
