//go:build unix

package server

import (
	"math"
	"syscall"
)

// maxOpenFiles returns how many files the process may open. Go raises the soft limit
// to the hard one at the start.
func maxOpenFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)) //nolint:unconvert // it is signed on some systems
}
