package testenv

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const crashVariable = "TESTENV_TO_BE_KILLED"

// Servers end with a test binary that is killed. The test kills a second copy of itself
// that has started servers.
func TestServer_TestBinaryKilled(t *testing.T) {
	skipShort(t)
	if os.Getenv(crashVariable) != "" {
		fmt.Printf("\npid=%d\n", StartStandalone(t, Config{}).Pid())
		fmt.Printf("\npid=%d\n", SharedStandalone(t).Pid())
		time.Sleep(time.Minute) // until killed
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), crashVariable+"=1", "TMPDIR="+t.TempDir(), uriVariable+"=")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var pids []int
	for scan := bufio.NewScanner(out); len(pids) < 2 && scan.Scan(); {
		if _, text, ok := strings.Cut(scan.Text(), "pid="); ok {
			pid, err := strconv.Atoi(text)
			must(t, err)
			pids = append(pids, pid)
		}
	}
	if len(pids) != 2 || !alive(pids[0]) || !alive(pids[1]) {
		t.Fatalf("the helper did not start its servers: %v", pids)
	}
	must(t, cmd.Process.Kill())
	must(t, poll(testContext(t), func(context.Context) error {
		for _, pid := range pids {
			if alive(pid) {
				return fmt.Errorf("pid %d outlived the test binary", pid)
			}
		}
		return nil
	}))
}

// A server does not end with the thread that started it.
func TestServer_OutlivesThread(t *testing.T) {
	skipShort(t)
	var s *Server
	var err error
	thread := make(chan int)
	var call func()
	call = func() {
		runtime.LockOSThread() // not unlocked, so that the thread ends with the goroutine
		if syscall.Gettid() == os.Getpid() {
			go call() // the main thread never ends: use another one
			<-t.Context().Done()
			runtime.UnlockOSThread()
			return
		}
		s, err = startStandalone(context.Background(), Config{})
		thread <- syscall.Gettid()
	}
	go call()
	task := fmt.Sprintf("/proc/self/task/%d", <-thread)
	must(t, err)
	defer func() { must(t, s.group.close()) }()
	pid := s.Pid()
	must(t, poll(testContext(t), func(context.Context) error {
		if _, err := os.Stat(task); err == nil {
			return fmt.Errorf("the thread %s has not ended", task)
		}
		return nil
	}))
	ping(t, s)
	if s.Pid() != pid {
		t.Error("the server ended with the thread")
	}
}
