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
	// lockOffset is from a port to that of UDP which a process holds while it has the port
	// reserved: tests of several packages run at the same time.
	lockOffset = 20000
)

var ports = struct {
	sync.Mutex
	taken map[int]net.PacketConn
}{taken: make(map[int]net.PacketConn)}

// reservePort returns a port without a listener, also for the cluster bus, and reserves
// it until releasePort, so that a killed server can restart on it. If another program
// takes it first, the server fails to start and the caller tries again.
func reservePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		lock, err := net.ListenPacket("udp", loopback(port+lockOffset))
		if err != nil {
			continue
		}
		if !portFree(port) || !portFree(port+busOffset) {
			_ = lock.Close()
			continue
		}
		ports.taken[port] = lock
		return port, nil
	}
	return 0, errors.New("no free port found")
}

func releasePort(port int) {
	ports.Lock()
	defer ports.Unlock()
	if lock, ok := ports.taken[port]; ok {
		_ = lock.Close()
		delete(ports.taken, port)
	}
}

func portFree(port int) bool {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
