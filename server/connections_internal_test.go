package server

import (
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// failingListener has no file descriptor for a connection.
type failingListener struct{ net.Listener }

func (failingListener) Accept() (net.Conn, error) {
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
}

// Each error of Accept is counted, and one line in ten seconds says why clients
// wait. An error does not use up a slot.
func TestLimitListener_AcceptErrors(t *testing.T) {
	log := new(testenv.LogBuffer)
	l := newLimitListener(failingListener{}, "http", 1, log.Logger())
	for range 10 {
		if _, err := l.Accept(); err == nil {
			t.Fatal("accepted")
		}
	}
	if lines := log.Lines("cannot accept connections"); len(lines) != 1 || !strings.Contains(lines[0], "too many open files") {
		t.Errorf("%d lines: %s", len(lines), lines)
	}
	if l.failed.Load() != 10 || l.open.Load() != 0 || len(l.slots) != 0 {
		t.Errorf("%d failed, %d open, %d slots", l.failed.Load(), l.open.Load(), len(l.slots))
	}
}
