//go:build !linux

package testenv

import "syscall"

// endWithParent is not available on this system: a killed test binary leaves its servers
// running.
func endWithParent() *syscall.SysProcAttr { return nil }
