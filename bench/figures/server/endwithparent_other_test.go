//go:build !linux

package server_test

import "syscall"

// endWithParent has no counterpart here: a test binary that is killed leaves its
// programs running.
func endWithParent() *syscall.SysProcAttr { return nil }
