//go:build !unix || aix || solaris || illumos

package client

import "syscall"

// readable cannot be implemented here.
func readable(syscall.RawConn) bool { return false }
