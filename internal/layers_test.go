// Package internal holds what other modules cannot import. This test keeps
// the arrows between the layers pointing down.
package internal

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"
)

const module = "github.com/fluxgate/fluxgate"

// layers are the packages of the product from the top of a request's path to
// its bottom. A package may import packages of lower layers only.
var layers = [][]string{
	{"cmd", "internal/mutate", "clients/conformance/harness"},
	{"internal/cli"},
	{"server"},
	{"server/plane", "server/doctor"},
	{"server/backend"},
	{"server/check", "server/forwardauth", "server/telemetry", "server/adminapi", "server/rls"},
	{"server/access", "server/audit", "server/insight", "server/warnings", "console"},
	{"server/config", "server/receipt", "server/slots"},
	{"httplimit/limittest", "internal/chaos", "internal/model", "internal/simulate", "internal/upgrade"},
	{"httplimit", "grpclimit", "promlimit", "client", "admin", "internal/model/redissim"},
	{"internal/middleware", "internal/meter"},
	{"rules/reload"},
	{"rules/rulestest"},
	{"rules/xdsrules"},
	{"rules/envoyrules"},
	{"rules/filerules", "rules/mongorules", "rules/redisrules", "rules/overridestore"},
	{"internal/wire"},
	{"store/redisstore", "store/lease", "store/storetest", "clientip"},
	{""}, // the root package: the engine
	{"store/memstore", "store/failover"},
	{"store/bucketmath", "internal/rulecontent", "internal/overridemap", "internal/unsent", "internal/warning"},
	{"rules", "store"},
	{"internal/ideal", "internal/testenv/frontproxy", "internal/testenv/xdsserver"},
	{"internal/match", "internal/bucket", "internal/amount", "internal/testenv", "internal/strictjson", "internal/yamltree", "internal/redislog", "internal/redissub", "internal/redisuri"},
	{"internal/background", "internal/deadline", "internal/keyfield", "internal/logthrottle", "internal/snapshotmap", "internal/netset", "internal/pendingids", "internal/retry", "internal/syntax", "internal/printable", "internal/spelling", "internal/period", "internal/tlsfiles", "internal/calendar"},
	{"internal/secret"},
}

// layerOf is the layer that names a package, or else the folder nearest to it.
func layerOf(pkg string) int {
	found, longest := -1, -1
	for i, layer := range layers {
		for _, name := range layer {
			if (pkg == name || name != "" && strings.HasPrefix(pkg, name+"/")) && len(name) > longest {
				found, longest = i, len(name)
			}
		}
	}
	return found
}

type pkg struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,Standard", module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestTheRootPackageStandsOnTheStandardLibrary(t *testing.T) {
	byPath := map[string]pkg{}
	for _, p := range packages(t) {
		byPath[p.ImportPath] = p
	}
	for next, seen := []string{module}, map[string]bool{}; len(next) > 0; next = next[1:] {
		for _, imported := range byPath[next[0]].Imports {
			switch {
			case byPath[imported].Standard || seen[imported]:
			case strings.HasPrefix(imported, module):
				seen[imported], next = true, append(next, imported)
			default:
				t.Errorf("%s imports %s, which is not the standard library", next[0], imported)
			}
		}
	}
}

// Programs that serve HTTP alone do not have gRPC in them.
func TestHTTPWithoutGRPC(t *testing.T) {
	for _, p := range packages(t) {
		switch strings.TrimPrefix(p.ImportPath, module) {
		case "/httplimit", "/internal/middleware", "/clientip", "/client", "/internal/wire", "/promlimit", "/internal/meter":
			for _, imported := range p.Imports {
				if strings.HasPrefix(imported, "google.golang.org/") {
					t.Errorf("%s imports %s", p.ImportPath, imported)
				}
			}
		}
	}
}

func TestArrowsPointDown(t *testing.T) {
	for _, p := range packages(t) {
		if p.Standard || !strings.HasPrefix(p.ImportPath, module) {
			continue
		}
		from := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if from == "internal" {
			continue
		}
		if layerOf(from) < 0 {
			t.Errorf("package %q stands in no layer: add it to layers in this test", from)
			continue
		}
		for _, imported := range p.Imports {
			to, ours := strings.CutPrefix(imported, module)
			if !ours {
				continue
			}
			if to = strings.TrimPrefix(to, "/"); layerOf(to) <= layerOf(from) && to != from {
				t.Errorf("%q imports %q, which is not below it: see layers in this test", from, to)
			}
		}
	}
}

// Every package has a row in the table of the documentation, or one of its folders does.
func TestArchitecture_EveryPackage(t *testing.T) {
	page, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if p.Standard || !strings.HasPrefix(p.ImportPath, module) || name == "" || name == "internal" {
			continue
		}
		found := false
		for folder := name; folder != "." && !found; folder = path.Dir(folder) {
			found = strings.Contains(string(page), "`"+folder+"`") && (folder == name || strings.HasPrefix(folder, "internal/"))
		}
		if !found {
			t.Errorf("docs/architecture.md has no row for %s", name)
		}
	}
}
