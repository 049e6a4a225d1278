package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are below the range for outgoing connections (32768 on Linux). Otherwise a client
// could get the port of a killed server before it restarts, or even connect to itself.
const (
	firstPort = 10240
	lastPort  = 22700
	busOffset = 10000 // a cluster node's bus, fixed before Redis 7.0
)

var ports = struct {
	sync.Mutex
	taken map[int]bool
}{taken: make(map[int]bool)}

// reservePort returns a port without a listener, also for the cluster bus, and reserves
// it in this process until releasePort, so that a killed server can restart on it. If
// another process takes it first, the server fails to start and the caller tries again.
func reservePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if ports.taken[port] || !portFree(port) || !portFree(port+busOffset) {
			continue
		}
		ports.taken[port] = true
		return port, nil
	}
	return 0, errors.New("no free port found")
}

func releasePort(port int) {
	ports.Lock()
	defer ports.Unlock()
	delete(ports.taken, port)
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
