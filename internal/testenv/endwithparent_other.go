//go:build !linux

package testenv

import "syscall"

// endWithParent has no counterpart here: a test binary that is killed leaves its
// servers running.
func endWithParent() *syscall.SysProcAttr { return nil }
