//go:build !unix

package testenv

import (
	"context"
	"errors"
	"os"
)

func (p *process) freeze(context.Context) error { return errors.ErrUnsupported }

func (p *process) thaw() error { return errors.ErrUnsupported }

func (p *process) terminate() error { return p.signal(os.Kill) }
