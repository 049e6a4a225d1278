package cli

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// sessions are the parts of the docs whose console blocks run as tests, command
// by command with the documented output.
var sessions = []struct {
	file, heading string
	servers       bool // needs Redis and MongoDB
}{
	{"README.md", "First decision with the server", false},
	{"docs/getting-started.md", "Run the server", false},
	{"docs/getting-started.md", "Change rules in production", true},
	{"docs/envoy.md", "How a call is decided", false},
	{"docs/envoy.md", "Its configuration files", false},
	{"docs/simulate.md", "Compare two rule sets", false},
	{"docs/simulate.md", "Logs", false},
}

// The documented sessions work; only addresses differ.
func TestDocs_Sessions(t *testing.T) {
	testenv.SkipShort(t)
	for _, s := range sessions {
		t.Run(s.heading, func(t *testing.T) {
			t.Parallel()
			var replace []string
			if s.servers {
				replace = []string{
					"redis://127.0.0.1:6379", testenv.StartStandalone(t, testenv.Config{}).URI(),
					"mongodb://127.0.0.1:27017/fluxgate", testenv.StartMongo(t).URI() + "fluxgate",
				}
			}
			runSession(t, sessionSteps(t, s.file, s.heading), replace...)
		})
	}
}

// sessionStep is a documented command and its output.
type sessionStep struct{ command, output string }

// sessionSteps are those of the console blocks under a heading of a markdown
// file of the tree.
func sessionSteps(t *testing.T, file, heading string) []sessionStep {
	t.Helper()
	_, after, found := strings.Cut(readFile(t, file), "\n## "+heading)
	if !found {
		t.Fatalf("%s has no heading %q", file, heading)
	}
	section, _, _ := strings.Cut(after, "\n## ")
	var all []sessionStep
	for _, part := range strings.Split(section, "```console\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		for line := range strings.Lines(block) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				all = append(all, sessionStep{command: strings.TrimSpace(command)})
				continue
			}
			all[len(all)-1].output += line
		}
	}
	if len(all) == 0 {
		t.Fatalf("there are no commands under %q in %s", heading, file)
	}
	return all
}

// times differ by how fast the machine is, and columns with them.
var (
	times  = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+s\b`)
	spaces = regexp.MustCompile(` +`)
)

// runSession runs the commands in a shell, with other addresses.
func runSession(t *testing.T, steps []sessionStep, replace ...string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	addr, admin, folder := testenv.FreeAddr(t), testenv.FreeAddr(t), programFolder(t)
	environ := append(os.Environ(), "FLUXGATE_ADMIN=http://"+admin)
	address := strings.NewReplacer(append(replace,
		"go build -o fluxgate ./cmd/fluxgate", "true", // done already
		"examples/rules.yaml", root+"/examples/rules.yaml",
		"examples/ratelimit.yaml", root+"/examples/ratelimit.yaml",
		"examples/envoy-rules.yaml", root+"/examples/envoy-rules.yaml",
		"server.grpc=127.0.0.1:8081", "server.grpc=127.0.0.1:0",
		"fluxgate serve", "fluxgate serve --set server.http="+addr+" --set server.drain.delay=0s --set server.admin="+admin,
		"fluxgate check", "fluxgate check --server http://"+addr,
	)...)
	slept := false
	for _, s := range steps {
		command := address.Replace(s.command)
		if background, ok := strings.CutSuffix(command, " &"); ok {
			serve(t, folder, environ, background, addr)
			continue
		}
		// A slow machine needs longer than the documented sleep.
		deadline := time.Now()
		if slept {
			deadline = deadline.Add(30 * time.Second)
		}
		slept = strings.HasPrefix(command, "sleep ")
		for {
			cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
			cmd.Dir, cmd.Env = folder, environ
			out, _ := cmd.CombinedOutput()
			wrong := wrongCode(s.output, cmd.ProcessState.ExitCode())
			if tidy(string(out)) == tidy(s.output) && wrong == "" {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("$ %s\nprints\n%s\nand not\n%s\n%s", s.command, out, s.output, wrong)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// wrongCode says what is wrong with the exit code of a command that prints
// this.
func wrongCode(output string, code int) string {
	want := exitOK
	switch {
	case strings.HasPrefix(output, "refused") && !strings.Contains(output, "APPLIES"):
		want = exitRefused
	case strings.Contains(output, "→") && !strings.Contains(output, ", was "):
		want = exitDrift
	}
	if code != want {
		return fmt.Sprintf("the exit code is %d, want %d", code, want)
	}
	return ""
}

// programFolder returns a folder of its own that has the program and the examples in it.
func programFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"fluxgate": testenv.Fluxgate(t), "examples": examples} {
		if err := os.Symlink(to, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// serve runs a server until the test ends, and sees that it ends well.
func serve(t *testing.T, folder string, environ []string, command, addr string) {
	t.Helper()
	var said strings.Builder
	cmd := exec.Command("bash", "-c", "exec "+command)
	cmd.Dir, cmd.Env, cmd.Stderr = folder, environ, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server ended with %v\n%s", err, said.String())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			_ = conn.Close()
			return
		}
		if ctx.Err() != nil {
			t.Fatal("the server does not listen")
		}
		time.Sleep(10 * time.Millisecond)
	}
}
