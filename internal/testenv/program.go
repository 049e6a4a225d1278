package testenv

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// Program is a program that a test starts, such as the fluxgate server or a proxy. Its
// methods may be called concurrently.
type Program struct {
	path string
	args []string
	dir  string

	mu   sync.Mutex
	proc *process
}

// StartProgram starts a program in a folder of its own and kills it with the test. It does
// not wait until the program is ready.
func StartProgram(tb testing.TB, path string, args ...string) *Program {
	tb.Helper()
	return StartProgramIn(tb, tb.TempDir(), path, args...)
}

// StartProgramIn is StartProgram in a given folder, which is also the program's home.
func StartProgramIn(tb testing.TB, dir, path string, args ...string) *Program {
	tb.Helper()
	p := &Program{path: path, args: args, dir: dir}
	if err := p.boot(); err != nil {
		tb.Fatalf("testenv: start %s: %v", filepath.Base(path), err)
	}
	tb.Cleanup(func() {
		if err := p.Kill(); err != nil && !errors.Is(err, errNotRunning) {
			tb.Errorf("testenv: end %s: %v", filepath.Base(path), err)
		}
		if tb.Failed() {
			tb.Logf("--- %s\n%s", filepath.Base(path), p.Log())
		}
	})
	return p
}

func (p *Program) boot() (err error) {
	p.proc, err = launch(p.path, p.args, p.dir, p.logFile(), "HOME="+p.dir, "XDG_DATA_HOME="+p.dir, "XDG_CONFIG_HOME="+p.dir)
	return err
}

func (p *Program) logFile() string { return filepath.Join(p.dir, "output.log") }

// Log returns what the program has written to its standard output and error.
func (p *Program) Log() string {
	text, _ := os.ReadFile(p.logFile())
	return string(text)
}

// Running reports whether the process has not ended.
func (p *Program) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.proc.ended()
}

// Pid returns the process id.
func (p *Program) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proc.pid()
}

// Kill ends the program with SIGKILL and waits until it has ended.
func (p *Program) Kill() error { return p.act((*process).kill) }

// Freeze stops the program with SIGSTOP until Thaw.
func (p *Program) Freeze() error {
	return p.act(func(proc *process) error { return proc.freeze(context.Background()) })
}

// Thaw continues a frozen program.
func (p *Program) Thaw() error { return p.act((*process).thaw) }

// Stop ends the program with SIGTERM and waits until it has ended.
func (p *Program) Stop(ctx context.Context) error {
	return p.act(func(proc *process) error {
		if err := proc.terminate(); err != nil {
			return err
		}
		return proc.wait(ctx)
	})
}

// Restart starts a program again that has ended, with the same arguments.
func (p *Program) Restart() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.proc.ended() {
		return fmt.Errorf("%s is running", filepath.Base(p.path))
	}
	return p.boot()
}

func (p *Program) act(f func(*process) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc.ended() {
		return fmt.Errorf("%s: %w", filepath.Base(p.path), errNotRunning)
	}
	return f(p.proc)
}

// Root returns the folder of the source tree.
func Root(tb testing.TB) string {
	tb.Helper()
	_, here, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(here) {
		tb.Fatal("testenv: the source tree is not known: the tests were built with -trimpath")
	}
	return filepath.Join(filepath.Dir(here), "..", "..")
}

// fluxgateProgram builds cmd/fluxgate once for each test binary, which takes a moment if
// another one or an earlier run has built it from the same sources.
var fluxgateProgram = sync.OnceValues(func() (string, error) {
	_, here, _, _ := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(here), "..", "..", "cmd", "fluxgate")
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "fluxgate-testenv")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(source)) // each tree has its own
	program := filepath.Join(dir, fmt.Sprintf("fluxgate-%x", sum[:8]))
	return program, buildProgram(source, program)
})

// Fluxgate returns the path of the fluxgate server, built from this tree.
func Fluxgate(tb testing.TB) string {
	tb.Helper()
	skipShort(tb)
	program, err := fluxgateProgram()
	if err != nil {
		tb.Fatalf("testenv: build fluxgate: %v", err)
	}
	return program
}
