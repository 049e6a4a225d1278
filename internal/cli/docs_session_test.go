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

// step is a documented command and what it prints.
type step struct{ command, output string }

// steps are those of the console blocks under a heading of a page.
func steps(t *testing.T, page, heading string) []step {
	t.Helper()
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n## "+heading)
	if !found {
		t.Fatalf("%s has no %q", page, heading)
	}
	section, _, _ := strings.Cut(after, "\n## ")
	var all []step
	for _, part := range strings.Split(section, "```console\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		for line := range strings.Lines(block) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				all = append(all, step{command: strings.TrimSpace(command)})
				continue
			}
			all[len(all)-1].output += line
		}
	}
	if len(all) == 0 {
		t.Fatalf("there are no commands under %q", heading)
	}
	return all
}

// times differ by how fast the machine is, and columns with them.
var (
	times  = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+s\b`)
	spaces = regexp.MustCompile(` +`)
)

const gettingStarted = "docs/getting-started.md"

// Every command of the README prints what is shown there. Only addresses differ.
func TestReadme_FirstDecision(t *testing.T) {
	testenv.SkipShort(t)
	typed(t, "README.md", "First decision with the server")
}

// The same for the first session of docs/getting-started.md.
func TestGettingStarted_RunTheServer(t *testing.T) {
	testenv.SkipShort(t)
	typed(t, gettingStarted, "Run the server")
}

// The same for the second session, with Redis and a server that speaks MongoDB's
// protocol.
func TestGettingStarted_ChangeRules(t *testing.T) {
	testenv.SkipShort(t)
	redis, mongo := testenv.StartStandalone(t, testenv.Config{}), testenv.StartMongo(t)
	typed(t, gettingStarted, "Change rules in production", "redis://127.0.0.1:6379", redis.URI(), "mongodb://127.0.0.1:27017/fluxgate", mongo.URI()+"fluxgate")
}

// typed types the commands under a heading of a page, with other addresses.
func typed(t *testing.T, page, heading string, replace ...string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	addr, admin, folder := testenv.FreeAddr(t), testenv.FreeAddr(t), t.TempDir()
	t.Setenv("FLUXGATE_ADMIN", "http://"+admin)
	build(t, root, folder)
	address := strings.NewReplacer(append(replace,
		"go build -o fluxgate ./cmd/fluxgate", "true", // done already
		"examples/rules.yaml", root+"/examples/rules.yaml",
		"fluxgate serve", "fluxgate serve --set server.http="+addr+" --set server.admin="+admin,
		"fluxgate check", "fluxgate check --server http://"+addr,
	)...)
	slept := false
	for _, s := range steps(t, page, heading) {
		command := address.Replace(s.command)
		if background, ok := strings.CutSuffix(command, " &"); ok {
			serve(t, folder, background, addr)
			continue
		}
		// A slow machine needs longer than a person is told to wait.
		deadline := time.Now()
		if slept {
			deadline = deadline.Add(30 * time.Second)
		}
		slept = strings.HasPrefix(command, "sleep ")
		for {
			cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
			cmd.Dir = folder
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

// build makes the program.
func build(t *testing.T, root, folder string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-C", root, "-o", filepath.Join(folder, "fluxgate"), "./cmd/fluxgate").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// serve runs a server until the test ends, and sees that it ends well.
func serve(t *testing.T, folder, command, addr string) {
	t.Helper()
	var said strings.Builder
	cmd := exec.Command("bash", "-c", "exec "+command)
	cmd.Dir, cmd.Stderr = folder, &said
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
