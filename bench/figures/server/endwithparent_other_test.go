//go:build !linux

package server_test

import "syscall"

// endWithParent does nothing here: a test binary that is killed leaves its
// programs running.
func endWithParent() *syscall.SysProcAttr { return nil }
