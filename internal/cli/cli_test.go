package cli

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// Every outcome has its exit code and says what to do.
func TestRun_ExitCodes(t *testing.T) {
	folder := t.TempDir()
	good, bad := filepath.Join(folder, "good.yaml"), filepath.Join(folder, "bad.yaml")
	for file, text := range map[string]string{
		good: "fluxgate:\n  redis: {uri: \"redis://:hidden-password@localhost\"}\n",
		bad:  "fluxgate:\n  redis:\n    timeout: soon\n    prefx: x\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args   []string
		code   int
		says   string
		onward bool // on stdout
	}{
		{[]string{"version"}, exitOK, "fluxgate dev", true},
		{[]string{"--help"}, exitOK, "Exit codes", true},
		{[]string{"serve", "--help"}, exitOK, "SIGHUP", true},
		{[]string{"completion", "bash"}, exitOK, "bash completion", true},
		{[]string{"completion"}, exitOK, "Generate the autocompletion script", true},
		{[]string{"serve", "--colour"}, exitUsage, "unknown flag: --colour", false},
		{[]string{"sreve"}, exitUsage, `unknown command "sreve": did you mean serve?`, false},
		{[]string{"rules", "lst"}, exitUsage, "did you mean list", false},
		{[]string{"config", "shout"}, exitUsage, "see fluxgate config --help", false},
		{[]string{"rules", "list", "--colour"}, exitUsage, "see fluxgate rules list --help", false},
		{[]string{"version", "please"}, exitUsage, "takes no arguments", false},
		{[]string{"config", "check", "-c", good}, exitOK, "the configuration is valid", true},
		{[]string{"config", "check", "-c", bad}, exitError, "bad.yaml:3:14", false},
		{[]string{"config", "check", "-c", bad}, exitError, "did you mean prefix?", false},
		{[]string{"config", "check", "-c", folder + "/none.yaml"}, exitError, "none.yaml", false},
		{[]string{"config", "print", "-c", good}, exitOK, "max-concurrent-waits", true},
		{[]string{"check", "--ip", "nowhere"}, exitUsage, "is not an IP address", false},
		{[]string{"check", "--cost", "-1"}, exitUsage, "it cannot be negative", false},
		{[]string{"check", "--cost", "x"}, exitUsage, "fluxgate: invalid argument \"x\" for \"--cost\" flag: ", false},
		{[]string{"check", "--cost", "99999999999999999999"}, exitUsage, "value out of range\nsee fluxgate check --help\n", false},
		{[]string{"check", "--costs", "usd=x"}, exitUsage, "invalid argument \"usd=x\" for \"--costs\" flag: ", false},
		{[]string{"check", "--timeout", "5"}, exitUsage, "invalid argument \"5\" for \"--timeout\" flag: ", false},
		{[]string{"check", "--peek=perhaps"}, exitUsage, "invalid argument \"perhaps\" for \"--peek\" flag: ", false},
		{[]string{"bucket", "rest", "--name", "x"}, exitUsage, "unknown command \"rest\": did you mean reset?\nsee fluxgate bucket --help\n", false},
		{[]string{"check", "--rule-set", "a/b"}, exitUsage, "is not a rule set id", false},
		{[]string{"check", "-s", "ftp://nowhere"}, exitUsage, "must be http://host:port", false},
		{[]string{"check", "-o", "xml"}, exitUsage, "table, json, yaml", false},
		{[]string{"check", "-s", "http://" + testenv.FreeAddr(t)}, exitError, "is a server running", false},
		{append([]string{"doctor"}, inMemory("../../examples/rules.yaml")...), exitOK, "rules: 2", true},
		{append([]string{"doctor", "-o", "yaml"}, inMemory("../../examples/rules.yaml")...), exitOK, "verdict: ok", true},
		{[]string{"doctor", "--set", "redis.enabled=false", "--set", "mongo.enabled=false", "--set", "rules.file=" + bad}, exitTrouble, "correct the rules", true},
	} {
		code, stdout, stderr := call(t, c.args...)
		said := stderr
		if c.onward {
			said = stdout
		}
		if code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("fluxgate %s: exit code %d\n%s%s", strings.Join(c.args, " "), code, stdout, stderr)
		}
		if strings.Contains(stdout+stderr, "hidden-password") {
			t.Errorf("fluxgate %s shows a password", strings.Join(c.args, " "))
		}
	}
}

// --version says what the command version says.
func TestRoot_VersionFlag(t *testing.T) {
	_, want, _ := call(t, "version")
	if code, out, errs := call(t, "--version"); code != exitOK || out != want {
		t.Errorf("exit code %d: %q, not %q\n%s", code, out, want, errs)
	}
}

// A build has the version that was set, and its commit; go install has that of
// the module.
func TestVersionOf(t *testing.T) {
	commit := []debug.BuildSetting{{Key: "vcs.revision", Value: "34c8f30d0a7b6c5e4f"}}
	for _, c := range []struct{ set, module, want string }{
		{"1.2.3", "v1.2.3", "1.2.3 (34c8f30d0a7b)"},
		{"dev", "v1.2.4-0.20261116173000-34c8f30d0a7b", "dev (34c8f30d0a7b)"},
	} {
		if got := versionOf(c.set, &debug.BuildInfo{Main: debug.Module{Version: c.module}, Settings: commit}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	for _, c := range []struct{ set, module, want string }{
		{"dev", "v1.2.3", "1.2.3"}, {"dev", "(devel)", "dev"}, {"1.2.3", "(devel)", "1.2.3"}, {"1.2.3", "v1.2.2", "1.2.3"},
	} {
		if got := versionOf(c.set, &debug.BuildInfo{Main: debug.Module{Version: c.module}}); got != c.want {
			t.Errorf("%+v without a commit: %s", c, got)
		}
	}
}
