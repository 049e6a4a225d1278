package server

import "errors"

// closers are functions that close what was opened.
type closers []func() error

func (c *closers) add(f func() error) { *c = append(*c, f) }

// close calls the functions, the last first.
func (c *closers) close() error {
	var errs []error
	for i := len(*c) - 1; i >= 0; i-- {
		errs = append(errs, (*c)[i]())
	}
	*c = nil
	return errors.Join(errs...)
}
