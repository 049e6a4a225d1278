package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"go.yaml.in/yaml/v3"
)

// adminDocs is a fenced block of docs/admin.md that has a text in it.
func adminDocs(t *testing.T, kind, with string) string {
	t.Helper()
	for _, part := range strings.Split(readFile(t, "docs/admin.md"), "\n```"+kind+"\n")[1:] {
		if block, _, _ := strings.Cut(part, "\n```"); strings.Contains(block, with) {
			return block
		}
	}
	t.Fatalf("docs/admin.md has no %s with %q", kind, with)
	return ""
}

// The workflow in docs/admin.md runs on a pull request, on a push and on a
// schedule, in a shell with a real server.
func TestDocs_Pipeline(t *testing.T) {
	testenv.SkipShort(t)
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				If  string `yaml:"if"`
				Run string `yaml:"run"`
			} `yaml:"steps"`
		} `yaml:"jobs"`
	}
	if err := yaml.Unmarshal([]byte(adminDocs(t, "yaml", "jobs:")), &workflow); err != nil {
		t.Fatal(err)
	}
	const token = "the-token-of-a-pipeline"
	sum := sha256.Sum256([]byte(token))
	address, _ := serveWith(t, append(inRedis(t), "server.auth.tokens=[{name: pipeline, sha256: "+hex.EncodeToString(sum[:])+", roles: [write]}]")...)
	folder := programFolder(t)
	if err := os.Mkdir(filepath.Join(folder, "limits"), 0o700); err != nil {
		t.Fatal(err)
	}
	// event runs the steps of an event and returns what they print, and how
	// the last one ended.
	event := func(name string) (out string, failed error) {
		for _, step := range workflow.Jobs["limits"].Steps {
			if step.Run == "" || step.If != "" && !strings.Contains(step.If, "'"+name+"'") || strings.HasPrefix(step.Run, "git clone") {
				continue
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(step.Run, "${{ github.sha }}", "0a1b2c3"))
			cmd.Dir = folder
			cmd.Env = append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), "FLUXGATE_ADMIN=http://"+address, "TOKEN="+token)
			said, err := cmd.CombinedOutput()
			if out += string(said); err != nil {
				return out, err
			}
		}
		return out, nil
	}
	wants := func(name string, good bool, want string) {
		t.Helper()
		out, err := event(name)
		if (err == nil) != good || !strings.Contains(out, want) {
			t.Errorf("on %s: %v, want success %t and %q\n%s", name, err, good, want, out)
		}
	}
	file := func(capacity int) { write(t, filepath.Join(folder, "limits"), "api.yaml", ruleSet("api", capacity)) }

	file(0)
	wants("pull_request", false, "must be at least 1")
	file(5)
	wants("pull_request", true, "api, new: 1 added")
	wants("push", true, "api: revision 1")
	wants("push", true, "api: unchanged (revision 1)")
	wants("schedule", true, "")
	file(7)
	wants("schedule", false, "bands[hourly].capacity: 5 → 7")
	wants("push", true, "api: revision 2, was 1")
	if code, out, _ := call(t, "rules", "history", "api", "--server", "http://"+address, "--token-file", filepath.Join(folder, "token")); code != exitOK || !strings.Contains(out, "token:pipeline  0a1b2c3") {
		t.Errorf("the history says\n%s", out)
	}
}

// The configuration in docs/admin.md is valid, with existing files for those it
// names.
func TestDocs_AccessConfiguration(t *testing.T) {
	folder := t.TempDir()
	certs := testenv.NewCertificates(t)
	tokens := write(t, folder, "tokens.yaml", "tokens: []\n")
	block := strings.NewReplacer(
		"/etc/fluxgate/tls.crt", certs.CertFile, "/etc/fluxgate/tls.key", certs.KeyFile, "/etc/fluxgate/clients.crt", certs.CAFile,
		"/etc/fluxgate/tokens.yaml", tokens, "/var/log/fluxgate/audit.jsonl", filepath.Join(folder, "audit.jsonl"),
	).Replace(adminDocs(t, "yaml", "admin-hosts"))
	file := write(t, folder, "fluxgate.yaml", block)
	if code, out, errs := call(t, "config", "check", "--config", file); code != exitOK {
		t.Errorf("%s%s", out, errs)
	}
}

// A token made as in docs/admin.md is accepted.
func TestDocs_Token(t *testing.T) {
	folder := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", adminDocs(t, "sh", "ada.token"))
	cmd.Dir = folder
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(folder, "ada.token"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	hash := strings.TrimSpace(string(out))
	address, _ := serveWith(t, append(inRedis(t), "server.auth.tokens=[{name: ada, sha256: "+hash+", roles: [read]}]")...)
	if code, _, errs := call(t, "rules", "list", "--server", "http://"+address, "--token-file", filepath.Join(folder, "ada.token")); code != exitOK {
		t.Error(errs)
	}
	if code, _, _ := call(t, "rules", "list", "--server", "http://"+address); code != exitError {
		t.Error("a caller without a token is accepted")
	}
}

// A conflict looks as docs/admin.md shows it.
func TestDocs_Conflict(t *testing.T) {
	testenv.SkipShort(t)
	address, _ := serveWith(t, inRedis(t)...)
	folder := t.TempDir()
	text, err := os.ReadFile("../../examples/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, folder, "rules.yaml", string(text))
	if code, _, errs := call(t, "rules", "apply", "-f", file, "--yes", "--server", "http://"+address); code != exitOK {
		t.Fatal(errs)
	}
	write(t, folder, "rules.yaml", strings.Replace(string(text), "capacity: 2,", "capacity: 100,", 1))
	quicker := write(t, t.TempDir(), "rules.yaml", strings.Replace(string(text), "capacity: 2,", "capacity: 50,", 1))
	me := &terminal{answer: "y\n", meanwhile: func() {
		if code, _, errs := call(t, "rules", "apply", "-f", quicker, "--yes", "--server", "http://"+address); code != exitOK {
			t.Error(errs)
		}
	}}
	code, out, errs := callWith(t, me, "rules", "apply", "-f", file, "--server", "http://"+address)
	if code != exitError {
		t.Errorf("exit code %d", code)
	}
	block := adminDocs(t, "", "$ fluxgate rules apply")
	_, want, _ := strings.Cut(block, "\n")
	want = strings.NewReplacer("[y/N] y\n", "[y/N] ", "token:bob", "anonymous", "127.0.0.1:9090", address).Replace(want)
	if tidy(out+errs) != tidy(want) {
		t.Errorf("prints\n%s%s\nand not\n%s", out, errs, want)
	}
}
