package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// sessions are the parts of the docs whose console blocks run as tests, command
// by command with the documented output.
var sessions = []struct {
	file, heading string
	needs         sessionNeed
}{
	{"README.md", "Install", compiler},
	{"docs/index.md", "Three ways to ask", nothing},
	{"README.md", "First decision", nothing},
	{"README.md", "In a Go service", compiler},
	{"docs/envoy.md", "How a call is decided", nothing},
	{"docs/envoy.md", "Its configuration files", nothing},
	{"docs/simulate.md", "Compare two rule sets", nothing},
	{"docs/simulate.md", "Logs", nothing},
}

// sessionNeed is what a session needs besides the program.
type sessionNeed int

const (
	nothing  sessionNeed = iota
	compiler             // the session compiles the tree
)

// The documented sessions work; only addresses differ.
func TestDocs_Sessions(t *testing.T) { runSessions(t, nothing) }

// So do those that compile the tree. make docs runs them: they would delay tests that measure time.
func TestDocs_Sessions_Compile(t *testing.T) { runSessions(t, compiler) }

func runSessions(t *testing.T, needs sessionNeed) {
	t.Helper()
	testenv.SkipShort(t)
	for _, s := range sessions {
		if needs != s.needs {
			continue
		}
		t.Run(s.heading, func(t *testing.T) {
			t.Parallel()
			runSession(t, sessionSteps(t, s.file, s.heading))
		})
	}
}

// Every command of the README and of getting started is part of a session.
func TestDocs_SessionsComplete(t *testing.T) {
	for _, file := range []string{"docs/getting-started.md", "README.md"} {
		text, run := readFile(t, file), 0
		for _, s := range sessions {
			if s.file == file {
				run += strings.Count(section(t, file, s.heading), "\n```console\n")
			}
		}
		if blocks := strings.Count(text, "```console\n"); blocks != run || strings.Contains(text, "```sh") {
			t.Errorf("%s: %d console blocks, of which %d are in sessions; commands must not be in other blocks", file, blocks, run)
		}
	}
}

// sessionStep is a documented command and its output, or a file and its text.
type sessionStep struct{ command, output, file string }

// section is the part of a Markdown file of the tree under a heading.
func section(t *testing.T, file, heading string) string {
	t.Helper()
	_, after, found := strings.Cut(readFile(t, file), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", file, heading)
	}
	text, _, _ := strings.Cut(after, "\n## ")
	return text
}

// fileName is the first line of a block that readers save as a file.
var fileName = regexp.MustCompile(`^(?:#|//) (\w+\.\w+)$`)

// sessionSteps are those of the console blocks and files under a heading of a markdown
// file of the tree.
func sessionSteps(t *testing.T, file, heading string) []sessionStep {
	t.Helper()
	all, _ := stepsOf(section(t, file, heading))
	if len(all) == 0 {
		t.Fatalf("there are no commands under %q in %s", heading, file)
	}
	return all
}

// stepsOf are those of a text, and its other blocks.
func stepsOf(text string) (all []sessionStep, others []string) {
	fences := strings.Split("\n"+text, "\n```")
	for i := 1; i < len(fences); i += 2 {
		language, block, _ := strings.Cut(fences[i], "\n")
		language, _, _ = strings.Cut(language, " ") // the title of a tab
		first, _, _ := strings.Cut(block, "\n")
		if name := fileName.FindStringSubmatch(first); name != nil {
			all = append(all, sessionStep{file: name[1], output: block + "\n"})
			continue
		}
		if language != "console" {
			others = append(others, block)
			continue
		}
		for line := range strings.Lines(block + "\n") {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				all = append(all, sessionStep{command: strings.TrimSpace(command)})
				continue
			}
			all[len(all)-1].output += line
		}
	}
	return all, others
}

// times differ by how fast the machine is, and columns with them. So do some headers.
var (
	times   = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+s\b`)
	spaces  = regexp.MustCompile(` +`)
	headers = regexp.MustCompile(`(?m)(^(?:Date|Server|X-Rate[Ll]imit-Reset|Retry-After): |;t=).+$`)
)

// runSession runs the commands in a shell, with other addresses.
func runSession(t *testing.T, steps []sessionStep) {
	t.Helper()
	root := testenv.Root(t)
	addr, admin, folder := testenv.FreeAddr(t), testenv.FreeAddr(t), programFolder(t)
	environ := append(os.Environ(), "FLUXGATE_ADMIN=http://"+admin, "PATH="+folder+":"+os.Getenv("PATH"), "GOBIN="+folder+"/bin")
	address := strings.NewReplacer(
		"go build -o fluxgate ./cmd/fluxgate", "true", // done already
		"git clone https://github.com/fluxgate/fluxgate", "ln -s "+root+" clone", "cd fluxgate", "cd clone",
		"examples/rules.yaml", root+"/examples/rules.yaml",
		"examples/ratelimit.yaml", root+"/examples/ratelimit.yaml",
		"examples/envoy-rules.yaml", root+"/examples/envoy-rules.yaml",
		"server.grpc=127.0.0.1:8081", "server.grpc=127.0.0.1:0",
		"fluxgate serve", "fluxgate serve --set server.http="+addr+" --set server.drain.delay=0s --set server.admin="+admin,
		"fluxgate check", "fluxgate check --server http://"+addr,
		"127.0.0.1:8080", addr,
	)
	if slices.ContainsFunc(steps, func(s sessionStep) bool { return strings.Contains(s.command, modulePath) }) {
		environ = append(environ, publish(t)...)
	}
	if strings.HasPrefix(steps[0].command, "go get ") {
		write(t, folder, "go.mod", "module example.com/service\n\ngo 1.26.0\n")
	}
	slept := false
	for _, s := range steps {
		if s.file != "" {
			write(t, folder, s.file, address.Replace(s.output))
			continue
		}
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
			output := cmd.CombinedOutput
			if strings.HasPrefix(command, "go ") {
				output = cmd.Output // progress goes to its standard error
			}
			out, err := output()
			wrong := wrongCode(s.output, cmd.ProcessState.ExitCode())
			if tidyResponse(string(out)) == tidyResponse(s.output) && wrong == "" {
				break
			}
			if time.Now().After(deadline) {
				var failed *exec.ExitError
				if errors.As(err, &failed) {
					wrong += "\n" + string(failed.Stderr)
				}
				t.Fatalf("$ %s\nprints\n%s\nand not\n%s\n%s", s.command, out, s.output, wrong)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// tidyResponse is tidy for outputs that may have the headers of a response.
func tidyResponse(s string) string {
	return headers.ReplaceAllString(strings.ReplaceAll(tidy(s), "\r", ""), "$1…")
}

// wrongCode says what is wrong with the exit code of a command that prints
// this.
func wrongCode(output string, code int) string {
	want := exitOK
	switch {
	case strings.HasPrefix(output, "rejected") && !strings.Contains(output, "APPLIES"):
		want = exitRejected
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
	for name, to := range map[string]string{"fluxgate": testenv.Fluxgate(t), "examples": filepath.Join(testenv.Root(t), "examples")} {
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
		if err := cmd.Wait(); err != nil && strings.Contains(command, "fluxgate serve") {
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
			t.Fatalf("%s: the server does not listen\n%s", command, said.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
}
