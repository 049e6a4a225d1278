//go:build unix && !aix && !solaris && !illumos

package client

import "syscall"

// readable reports whether there is something to be read, be it the end. It
// does not wait for those who read the connection already.
func readable(raw syscall.RawConn) bool {
	var found bool
	err := raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		found = err != syscall.EAGAIN && err != syscall.EWOULDBLOCK && err != syscall.EINTR
	})
	return err != nil || found
}
