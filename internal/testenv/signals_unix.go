//go:build unix

package testenv

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
)

// freeze stops the process and returns when it is stopped.
func (p *process) freeze(ctx context.Context) error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return poll(ctx, func(context.Context) error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid()))
		if err != nil {
			return nil //nolint:nilerr // without /proc, assume that it is stopped
		}
		// The state follows the program's name, which is in parentheses.
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		if !bytes.HasPrefix(rest, []byte("T")) {
			return fmt.Errorf("pid %d is not stopped yet", p.pid())
		}
		return nil
	})
}

// thaw continues a frozen process.
func (p *process) thaw() error { return p.signal(syscall.SIGCONT) }

// terminate sends SIGTERM.
func (p *process) terminate() error { return p.signal(syscall.SIGTERM) }
