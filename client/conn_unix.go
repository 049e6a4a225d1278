//go:build unix && !aix && !solaris && !illumos

package client

import "syscall"

// readable reports whether data or the end of the connection can be read. It does
// not wait for concurrent readers.
func readable(raw syscall.RawConn) bool {
	var found bool
	err := raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		found = err != syscall.EAGAIN && err != syscall.EWOULDBLOCK && err != syscall.EINTR
	})
	return err != nil || found
}
