package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
)

// process is a child process that is reaped as soon as it ends.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended and been reaped
}

// launch starts a program that ends with this process at the latest. Its output is
// appended to a file. Variables are added to those of this process.
func launch(program string, args []string, dir, output string, environ ...string) (*process, error) {
	log, err := os.OpenFile(output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own copy
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(os.Environ(), environ...)
	cmd.SysProcAttr = endWithParent()
	if err := launches.start(cmd); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the log has the reason
		launches.ended()
		close(p.done)
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %v to pid %d: %w", sig, p.pid(), err)
	}
	return nil
}

// kill ends the process at once, frozen or not, and waits until it has ended.
func (p *process) kill() error {
	if err := p.signal(os.Kill); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// wait returns when the process has ended.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// launcher starts children on one thread that lives as long as they do. On Linux a
// child's death signal comes from the thread that started it: a thread of the Go
// scheduler may end at any time and would kill its servers.
type launcher struct {
	mu   sync.Mutex
	live int
	jobs chan func()
}

var launches launcher

func (l *launcher) start(cmd *exec.Cmd) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live == 0 {
		l.jobs = make(chan func())
		go runLocked(l.jobs)
	}
	l.live++
	result := make(chan error, 1)
	l.jobs <- func() { result <- cmd.Start() }
	err := <-result
	if err != nil {
		l.drop()
	}
	return err
}

func (l *launcher) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

// drop ends the thread with the last child, so that no goroutine is left.
func (l *launcher) drop() {
	l.live--
	if l.live == 0 {
		close(l.jobs)
	}
}

func runLocked(jobs <-chan func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for job := range jobs {
		job()
	}
}
