//go:build !unix || aix || solaris || illumos

package client

import "syscall"

// readable does not know here.
func readable(syscall.RawConn) bool { return false }
