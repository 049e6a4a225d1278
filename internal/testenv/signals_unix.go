//go:build unix

package testenv

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"syscall"
)

// freeze stops the process where it stands and returns once it does.
func (p *process) freeze(ctx context.Context) error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return poll(ctx, func(context.Context) error {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid()))
		if err != nil {
			return nil //nolint:nilerr // no /proc to ask: the signal was sent
		}
		// The state follows the program's name, which is in parentheses.
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		if !bytes.HasPrefix(rest, []byte("T")) {
			return fmt.Errorf("pid %d is not stopped yet", p.pid())
		}
		return nil
	})
}

// thaw lets a frozen process go on.
func (p *process) thaw() error { return p.signal(syscall.SIGCONT) }

// terminate asks the process to end in its own way.
func (p *process) terminate() error { return p.signal(syscall.SIGTERM) }
