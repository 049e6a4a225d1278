package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// validate reports every error with its place.
func TestRulesValidate(t *testing.T) {
	folder := t.TempDir()
	good := write(t, folder, "good.yaml", ruleSet("one", 1))
	more := write(t, folder, "more.json", `{"id":"two","rules":[{"id":"two-rule","action":"deny"},{"id":"three-rule","path":"/x","action":"deny"}]}`)
	bad := write(t, t.TempDir(), "bad.yaml", "id: three\nrules:\n  - id: x\n    bands: [{capacity: 0, refill: 1s}]\n")
	same := write(t, t.TempDir(), "same.yaml", "ruleSets:\n  - {id: one, rules: []}\n  - {id: four, rules: [{id: two-rule, action: deny}]}\n")
	empty := t.TempDir()
	for _, c := range []struct {
		name         string
		args         []string
		stdin        string
		code         int
		stdout, errs string
		lines        bool // errs is where the errors begin
	}{
		{name: "one file", args: []string{"-f", good}, stdout: "1 rule set, 1 rule: valid\n"},
		{name: "a folder", args: []string{"-f", folder}, stdout: "2 rule sets, 3 rules: valid\n"},
		{name: "two files", args: []string{"-f", good, "-f", more}, stdout: "2 rule sets, 3 rules: valid\n"},
		{name: "the same file twice", args: []string{"-f", good, "-f", good}, stdout: "1 rule set, 1 rule: valid\n"},
		{name: "YAML on standard input", args: []string{"-f", "-"}, stdin: ruleSet("one", 1), stdout: "1 rule set, 1 rule: valid\n"},
		{name: "JSON on standard input", args: []string{"-f", "-"}, stdin: `{"id":"one","rules":[]}`, stdout: "1 rule set, 0 rules: valid\n"},
		{name: "wrong on standard input", args: []string{"-f", "-"}, stdin: "id: [", code: exitError, errs: "stdin:1:"},
		{name: "nothing on standard input", args: []string{"-f", "-"}, code: exitError, errs: "stdin: has no rule set"},
		{name: "a wrong file", args: []string{"-f", good, "-f", bad}, code: exitError,
			lines: true, errs: bad + ":4:24: rules[0].bands[0].capacity: must be at least 1\n"},
		{name: "several wrong files", args: []string{"-f", bad, "-f", good, "-f", same}, code: exitError, lines: true, errs: bad + ":4:24: "},
		{name: "a rule set twice", args: []string{"-f", good, "-f", same}, code: exitError, errs: `rule set "one" is in ` + good + " already"},
		{name: "a rule id in two rule sets", args: []string{"-f", more, "-f", same}, stdout: "3 rule sets, 3 rules: valid\n"},
		{name: "no such file", args: []string{"-f", good + "x"}, code: exitError, errs: "no such file"},
		{name: "an empty folder", args: []string{"-f", empty}, code: exitError, errs: "has no rules: their files end in .yaml, .yml or .json"},
		{name: "no file", code: exitUsage, errs: "name the rules: -f FILE"},
		{name: "a file without -f", args: []string{good}, code: exitUsage, errs: "takes no arguments, got"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := callWith(t, strings.NewReader(c.stdin), append([]string{"rules", "validate"}, c.args...)...)
			if code != c.code || out != c.stdout || !strings.Contains(errs, c.errs) || c.errs == "" && errs != "" || c.lines && (!strings.HasPrefix(errs, c.errs) || strings.Contains(errs, "fluxgate: ")) {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
		})
	}
}

// Warnings have their places, and are errors with --strict alone.
func TestRulesValidate_Warnings(t *testing.T) {
	file := write(t, t.TempDir(), "rules.yaml", `ruleSets:
  - id: one
    rules:
      - id: yes
        action: allow
        priority: 90
        method: GET
      - id: reads
        methods: [GET, GETT]
        bands: [{ capacity: 5, refill: 1s }, { capacity: 600, refill: 1m }]
`)
	const valid = "1 rule set, 2 rules: valid, with warnings\n"
	want := strings.ReplaceAll(`FILE:9:24: warning: ruleSets[0].rules[1].methods[1]: rule "reads" has the HTTP method "GETT", which is not registered: is it GET?
FILE:10:46: warning: ruleSets[0].rules[1].bands[1]: rule "reads" never reaches its limit 600-per-1m: 5-per-1s is always reached first
`, "FILE", file)
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
	}{{nil, exitOK, valid}, {[]string{"--strict"}, exitError, valid}} {
		code, out, errs := call(t, append([]string{"rules", "validate", "-f", file}, c.args...)...)
		if code != c.code || out != c.stdout || errs != want {
			t.Errorf("%v: exit code %d\n%s%swant\n%s", c.args, code, out, errs, want)
		}
	}
	code, out, errs := callWith(t, strings.NewReader(`{"id": "one", "rules": [{"id": "a", "method": "GETT", "action": "deny"}]}`), "rules", "validate", "-f", "-")
	if code != exitOK || !strings.HasPrefix(errs, `stdin.json:1:47: warning: rules[0].methods[0]: rule "a" has`) {
		t.Errorf("standard input: exit code %d\n%s%s", code, out, errs)
	}
	code, out, errs = call(t, "rules", "apply", "-f", file, "--strict", "--yes", "-s", "http://127.0.0.1:1")
	if code != exitError || !strings.HasPrefix(errs, want) || !strings.HasSuffix(errs, "nothing was applied: there are warnings, and --strict is set\n") {
		t.Errorf("apply: exit code %d\n%s%s", code, out, errs)
	}
}

// The error of an invalid file does not show an API key.
func TestRulesValidate_Secret(t *testing.T) {
	text := "id: x\nrules:\n  - id: a\n    when: {apiKeys: [hidden-key], hosts: 7}\n    bands: [{capacity: 1, refill: 1s}]\n"
	code, out, errs := callWith(t, strings.NewReader(text), "rules", "validate", "-f", "-")
	if code != exitError || strings.Contains(out+errs, "hidden-key") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// Invalid files are refused before a server is contacted.
func TestRules_InvalidFiles(t *testing.T) {
	bad := write(t, t.TempDir(), "bad.yaml", "id: three\nrules: 7\n")
	for _, command := range []string{"diff", "apply"} {
		// The server is not there, and not asked.
		code, _, errs := call(t, "rules", command, "-f", bad, "-s", "http://127.0.0.1:1")
		if code != exitError || !strings.Contains(errs, "bad.yaml:2:") || strings.Contains(errs, "is a server running") {
			t.Errorf("%s: exit code %d\n%s", command, code, errs)
		}
	}
}

// Rules in files can be read and compared, and not changed.
func TestRules_ReadOnly(t *testing.T) {
	rules := write(t, t.TempDir(), "rules.yaml", firstRules)
	settings := []string{"rules.file=" + rules, "redis.enabled=false", "mongo.enabled=false"}
	address, _ := serveWith(t, settings...)
	other := write(t, t.TempDir(), "other.yaml", strings.Replace(firstRules, "capacity: 2", "capacity: 3", 1))
	hash := regexp.MustCompile(`\b[0-9a-f]{8}\b`)
	for name, at := range map[string]testTarget{"server": {flags: []string{"-s", "http://" + address}}, "direct": direct(t, settings)} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t, append([]string{"rules", "get", "api-limits"}, at.flags...)...)
			if code != exitOK || out != document(2)+"\n" {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			for _, args := range [][]string{{"list"}, {"history", "api-limits"}} {
				code, out, errs := call(t, append(append([]string{"rules"}, args...), at.flags...)...)
				if code != exitOK || strings.Count(out, "\n") != 2 || !hash.MatchString(out) {
					t.Errorf("exit code %d\n%s%s", code, out, errs)
				}
			}
			code, out, errs = call(t, append([]string{"rules", "diff", "-f", other}, at.flags...)...)
			if code != exitDrift || !hash.MatchString(out) {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			code, out, errs = call(t, append([]string{"rules", "list", "-o", "json"}, at.flags...)...)
			if code != exitOK || !regexp.MustCompile(`"revision": \d{10,}`).MatchString(out) {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
			// Nothing is shown, and there is no question.
			for _, args := range [][]string{{"apply", "-f", other}, {"restore", "api-limits", "1"}, {"delete", "api-limits"}} {
				for _, stdin := range []io.Reader{strings.NewReader(""), &terminal{answer: "y\n"}} {
					code, out, errs := callWith(t, stdin, append(append([]string{"rules"}, args...), at.flags...)...)
					if code != exitError || out != "" || !strings.HasPrefix(errs, "fluxgate: nothing was changed: the rules are in files and cannot be changed here") {
						t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
					}
				}
			}
			// There is no history to look at.
			code, _, errs = call(t, append([]string{"rules", "get", "api-limits", "--revision", "1"}, at.flags...)...)
			if code != exitError || !strings.Contains(errs, "files have no history") || strings.Contains(errs, "see fluxgate") {
				t.Errorf("exit code %d\n%s", code, errs)
			}
		})
	}
	if text, err := os.ReadFile(filepath.Clean(rules)); err != nil || string(text) != firstRules {
		t.Errorf("the file was changed: %v\n%s", err, text)
	}
}
