package main

import (
	"context"
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

// step is a command of the README and what it prints.
type step struct{ command, output string }

// steps are those of the first console block of the README.
func steps(t *testing.T) []step {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "```console\n")
	block, _, found := strings.Cut(after, "```")
	if !found {
		t.Fatal("the README has no console block")
	}
	var all []step
	for line := range strings.Lines(block) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, step{command: strings.TrimSpace(command)})
			continue
		}
		all[len(all)-1].output += line
	}
	return all
}

// times differ by how fast the machine is.
var times = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+s\b`)

// columns differ with them.
var spaces = regexp.MustCompile(` +`)

func plain(s string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(times.ReplaceAllString(s, "TIME"), " "))
}

// TestTheFirstMinuteOfTheReadme types every command, and wants every answer.
// Nothing is changed but the ports.
func TestTheFirstMinuteOfTheReadme(t *testing.T) {
	testenv.SkipShort(t)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	addr, admin := testenv.FreeAddr(t), testenv.FreeAddr(t)
	folder, slept := t.TempDir(), false
	for _, s := range steps(t) {
		command := strings.NewReplacer(
			"go build -o fluxgate ./cmd/fluxgate", "go build -C "+root+" -o "+folder+"/fluxgate ./cmd/fluxgate",
			"examples/rules.yaml", root+"/examples/rules.yaml",
			"fluxgate serve", "fluxgate serve --set server.http="+addr+" --set server.admin="+admin,
			"fluxgate check", "fluxgate check --server http://"+addr,
		).Replace(s.command)
		if background, ok := strings.CutSuffix(command, " &"); ok {
			serve(t, folder, background, addr)
			continue
		}
		if slept {
			// A slow machine needs longer than a person is told to wait.
			slept = false
			deadline := time.Now().Add(30 * time.Second)
			for {
				out, err := exec.CommandContext(t.Context(), "bash", "-c", "cd "+folder+" && "+command).CombinedOutput()
				if plain(string(out)) == plain(s.output) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("$ %s\nprints\n%s\nand not\n%s\n%v", s.command, out, s.output, err)
				}
				time.Sleep(100 * time.Millisecond)
			}
			continue
		}
		slept = strings.HasPrefix(command, "sleep ")
		cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); err != nil && (code != exitRefused || !strings.Contains(s.output, "refused")) {
			t.Fatalf("$ %s\n%v\n%s", s.command, err, out)
		}
		if plain(string(out)) != plain(s.output) {
			t.Fatalf("$ %s\nprints\n%s\nand not\n%s", s.command, out, s.output)
		}
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
