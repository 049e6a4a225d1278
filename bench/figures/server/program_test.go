package server_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

const (
	// theirs is the program envoyproxy/ratelimit.
	theirs        = "github.com/envoyproxy/ratelimit/src/service_cmd"
	theirsVersion = "v1.4.1-0.20260122083618-3fb702589d36"
)

// buildOurs builds the server of this tree.
func buildOurs(ctx context.Context, folder string) (program string, err error) {
	program = filepath.Join(folder, "fluxgate")
	return program, runGo(ctx, nil, "-C", "../../..", "build", "-o", program, "./cmd/fluxgate")
}

// buildTheirs builds the other server once, and keeps it for the next run.
func buildTheirs(ctx context.Context) (program string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "fluxgate-figures", "ratelimit-"+theirsVersion)
	program = filepath.Join(folder, filepath.Base(theirs))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return "", err
	}
	unfinished, err := os.MkdirTemp(folder, "building")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(unfinished) }()
	if err := runGo(ctx, []string{"GOBIN=" + unfinished}, "install", theirs+"@"+theirsVersion); err != nil {
		return "", err
	}
	return program, os.Rename(filepath.Join(unfinished, filepath.Base(theirs)), program)
}

func runGo(ctx context.Context, environ []string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "go", args...)
	command.Env = append(os.Environ(), environ...)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("go %v: %w: %s", args, err, out)
	}
	return nil
}

// start runs a program until the test ends, and returns when it answers at a
// URL. The kernel ties its end to the thread that starts it, which therefore
// waits for it.
func start(t *testing.T, url string, environ []string, program string, args ...string) error {
	t.Helper()
	var said bytes.Buffer
	command := exec.Command(program, args...)
	command.Env = append(os.Environ(), environ...)
	command.Stdout, command.Stderr = &said, &said
	command.SysProcAttr = endWithParent()
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // its output says how it ended
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("starting %s: %w", filepath.Base(program), err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(program), said.Bytes())
		}
	})
	deadline := time.After(time.Minute)
	for {
		notYet := answers(t.Context(), url)
		if notYet == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ended:
			return fmt.Errorf("%s has ended: %s", filepath.Base(program), said.Bytes())
		case <-deadline:
			return fmt.Errorf("%s does not answer: %w", filepath.Base(program), notYet)
		}
	}
}

// answers reports whether a server is ready.
func answers(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, res.Status)
	}
	return nil
}
