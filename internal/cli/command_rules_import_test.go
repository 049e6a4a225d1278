package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// Every construct of envoyproxy/ratelimit's configuration becomes the rules in the golden
// files, with what is different on standard error. The rules are valid.
func TestRulesImport(t *testing.T) {
	const folder = "../../rules/envoyrules/testdata/"
	files, err := filepath.Glob(folder + "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	cases := map[string][]string{"refused": {folder + "refused/limits.yaml", folder + "units.yaml"}}
	for _, file := range files {
		cases[strings.TrimSuffix(filepath.Base(file), ".yaml")] = []string{filepath.ToSlash(file)}
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t, append([]string{"rules", "import", "--from", "envoy-ratelimit"}, args...)...)
			got := fmt.Sprintf("# exit code %d\n%s", code, out)
			for line := range strings.Lines(errs) {
				got += "# " + line
			}
			golden(t, "import/"+name, got)
			if code != exitOK {
				return
			}
			if code, _, errs := callWith(t, strings.NewReader(out), "rules", "validate", "-f", "-"); code != exitOK {
				t.Errorf("the rules are not valid: %s", errs)
			}
		})
	}
}

func TestRulesImport_Arguments(t *testing.T) {
	file := write(t, t.TempDir(), "a.yaml", "domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n")
	other := write(t, t.TempDir(), "b.yaml", "domain: a\ndescriptors: []\n")
	both := t.TempDir()
	write(t, both, "a.yaml", "domain: a\n")
	write(t, both, "b.yaml", "domain: a\n")
	for _, c := range []struct {
		args, stdin, stdout, stderr string
		code                        int
	}{
		{args: "import " + file, code: exitUsage, stderr: "name the format: --from envoy-ratelimit"},
		{args: "import --from nginx " + file, code: exitUsage, stderr: "use one of envoy-ratelimit"},
		{args: "import --from envoy-ratelimit", code: exitUsage, stderr: "name the rules: -f FILE"},
		{args: "import --from envoy-ratelimit " + file + "x", code: exitError, stderr: "no such file"},
		{args: "import --from envoy-ratelimit -f -", stdin: "domain: d\ndescriptors: []\n", stdout: "id: d\nrules: []\n"},
		{args: "import --from envoy-ratelimit -f " + file + " " + other, code: exitError, stderr: `rule set "a" is in ` + file + " already"},
		{args: "import --from envoy-ratelimit -", stdin: "domain: d\ndescriptors: []\n", stdout: "id: d\nrules: []\n"},
		{args: "import --from envoy-ratelimit " + file + " " + other, code: exitError, stderr: `rule set "a" is in ` + file + " already"},
		{args: "import --from envoy-ratelimit " + both, code: exitError, stderr: `rule set "a" is in ` + filepath.Join(both, "a.yaml") + " already"},
		{args: "validate --from envoy-ratelimit -f " + file, stdout: "1 rule set, 1 rule: valid\n"},
		{args: "validate -f " + file, code: exitError, stderr: "domain: is not a known field"},
		{args: "validate --from envoy-ratelimit -f -", stdin: "domain: d\ndescriptors: [{}]\n", code: exitError, stderr: "stdin:2:15: descriptors[0].key: is required"},
	} {
		code, out, errs := callWith(t, strings.NewReader(c.stdin), append([]string{"rules"}, strings.Fields(c.args)...)...)
		if code != c.code || out != c.stdout || !strings.Contains(errs, c.stderr) {
			t.Errorf("rules %s: exit code %d\n%s%s", c.args, code, out, errs)
		}
	}
}
