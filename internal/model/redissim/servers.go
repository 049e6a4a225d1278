// Package redissim is servers of Redis on virtual time, for the model: store/redisstore runs on them as it is, with its
// queues, calls, breaker, topology and connections, and go-redis. The network has latency and faults, and the slots of a
// cluster move.
//
// What is real: everything up to the bytes that a gateway sends, and the reading of the answers. What is written again
// here: the commands that the store sends, the redirects of a cluster, and the decision script, in Go, over the arithmetic
// of internal/bucket. That the script in Lua decides the same is for the tests of store/redisstore, on real servers.
package redissim

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/store"
)

// Servers are one server, or the masters of a cluster.
type Servers struct {
	begun   time.Time
	mu      sync.Mutex
	nodes   []*node
	cluster bool
	owner   [slotCount]*node  // by slot
	fleet   map[string]string // the state of the fleet
	live    map[string]time.Time
	moving  map[int]*move // by slot
	stalled time.Time
	offset  time.Duration
	log     []*Call
}

// node is one server.
type node struct {
	number  int
	addr    string
	values  map[string]*value
	holders map[string]map[store.HolderID]int64 // until when
}

// Call is what a call of the script had, and what became of it.
type Call struct {
	Gateway int
	At      time.Duration // since New, when it was sent
	Entries []Entry
	// Ran is whether the script ran it, Lost whether it never arrived, Answered whether its client has the answer.
	Ran, Lost, Answered bool
	call                *call
}

// Entry is one demand or settlement of a call.
type Entry struct {
	// Key is that of its bucket set, without the prefix and the hash tag.
	Key string
	// Slot is whether it has a band that limits concurrency, and Values whether it has others.
	Slot, Values bool
	Settles      bool // it is a settlement
	Renews       bool // of slots alone
	Peeks        bool
	Request      int // of the call, of demands
	Cost, Actual int64
	Granted      int64
	Age          time.Duration // of the take, when its settlement ran
	Holder       store.HolderID
	Bands        []store.ExactBand
}

const slotCount = 16_384

// New returns servers, of which each has a part of the slots.
func New(nodes int, cluster bool, salt []byte) *Servers {
	s := &Servers{begun: time.Now(), cluster: cluster, fleet: map[string]string{"salt": fmt.Sprintf("%x", salt)}, live: map[string]time.Time{}, moving: map[int]*move{}}
	for i := range nodes {
		s.nodes = append(s.nodes, &node{
			number: i, addr: fmt.Sprintf("10.0.0.%d:6379", i+1), values: map[string]*value{},
			holders: map[string]map[store.HolderID]int64{},
		})
	}
	for slot := range slotCount {
		s.owner[slot] = s.nodes[slot*nodes/slotCount]
	}
	return s
}

// Addrs are the addresses of the servers.
func (s *Servers) Addrs() (addrs []string) {
	for _, n := range s.nodes {
		addrs = append(addrs, n.addr)
	}
	return addrs
}

func (s *Servers) nodeAt(addr string) *node {
	for _, n := range s.nodes {
		if n.addr == addr {
			return n
		}
	}
	return nil
}

// Stall lets the servers run nothing until then.
func (s *Servers) Stall(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = later(until, s.stalled)
}

func (s *Servers) stalls() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.stalled)
}

// now is the clock of the servers, in microseconds. The lock is held.
func (s *Servers) now() int64 { return time.Now().Add(s.offset).UnixMicro() }

// run runs commands of a connection.
func (s *Servers) run(c *conn, commands [][]string, calls map[int]*Call, refused bool) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var answer []byte
	for i, command := range commands {
		asking := c.asking
		c.asking = false
		switch name := strings.ToUpper(command[0]); name {
		case "ASKING":
			c.asking = true
			answer = append(answer, "+OK\r\n"...)
		case "EVAL", "EVALSHA":
			keys, _ := strconv.Atoi(command[2])
			if redirect := s.redirect(c.node, command[3:3+keys], asking); redirect != "" {
				answer = append(answer, "-"+redirect+"\r\n"...)
			} else if call := calls[i]; call == nil {
				answer = append(answer, s.eval(command)...)
			} else if refused {
				answer = append(answer, "-OOM command not allowed when used memory > 'maxmemory'.\r\n"...)
			} else {
				call.Ran = true
				answer = append(answer, bulk(call.call.run(c.node, s.now(), call))...)
			}
		default:
			answer = append(answer, s.command(name, command)...)
		}
	}
	return answer
}

// command runs one of the few other commands that the store and its client send.
func (s *Servers) command(name string, command []string) string {
	switch name {
	case "HELLO":
		return "%3\r\n+server\r\n+redis\r\n+version\r\n+7.4.0\r\n+proto\r\n:3\r\n"
	case "CLIENT":
		return "+OK\r\n"
	case "PING":
		return "+PONG\r\n"
	case "INFO":
		return bulk(fmt.Sprintf("# Server\r\nredis_version:7.4.0\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n# Cluster\r\ncluster_enabled:%d\r\n", map[bool]int{true: 1}[s.cluster]))
	case "CLUSTER":
		return s.clusterSlots()
	case "SUBSCRIBE":
		return ">3\r\n" + bulk("subscribe") + bulk(command[1]) + ":1\r\n"
	}
	return "-ERR unknown command " + name + "\r\n"
}

// eval runs the other scripts.
func (s *Servers) eval(command []string) string {
	script, args := command[1], command[4:]
	switch {
	case strings.HasPrefix(script, "-- agree.lua"):
		written := 0
		for i := 0; i+1 < len(args); i += 2 {
			if _, known := s.fleet[args[i]]; !known {
				s.fleet[args[i]] = args[i+1]
				written++
			}
		}
		if s.fleet["since"] == "" {
			s.fleet["since"] = "1"
		}
		answer := fmt.Sprintf("*3\r\n:%d\r\n*%d\r\n", written, 2*len(s.fleet))
		for field, text := range s.fleet {
			answer += bulk(field) + bulk(text)
		}
		return answer + fmt.Sprintf(":%d\r\n", s.now())
	case strings.HasPrefix(script, "-- heartbeat.lua"):
		lasts, _ := strconv.Atoi(args[1])
		s.live[args[0]] = time.Now().Add(time.Duration(lasts) * time.Millisecond)
		for id, until := range s.live {
			if until.Before(time.Now()) {
				delete(s.live, id)
			}
		}
		return fmt.Sprintf(":%d\r\n", len(s.live))
	case strings.Contains(script, "'DEL'"):
		return ":0\r\n"
	}
	return "-ERR unknown script\r\n"
}

func bulk(text string) string { return "$" + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n" }

// Log has all calls of the script.
func (s *Servers) Log() []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log
}

// calls are the calls of the script among commands, by their index. They are noted.
func (s *Servers) calls(gateway int, commands [][]string) map[int]*Call {
	calls := map[int]*Call{}
	for i, command := range commands {
		if strings.ToUpper(command[0]) != "EVALSHA" {
			continue
		}
		keys, _ := strconv.Atoi(command[2])
		c := decodeCall(command[3:3+keys], command[3+keys])
		calls[i] = &Call{Gateway: gateway, At: time.Since(s.begun), call: c, Entries: c.entries()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range calls {
		s.log = append(s.log, c)
	}
	return calls
}
