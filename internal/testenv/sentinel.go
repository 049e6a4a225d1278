package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"
)

// Sentinel is one master with two replicas, monitored by three sentinels.
type Sentinel struct {
	*group
	watched  []*Server // the master and its replicas
	watchers []*Server // the sentinels
}

const (
	sentinelMasterName = "fluxgate-test"
	sentinelReplicas   = 2
	sentinelCount      = 3
	sentinelQuorum     = 2
)

// StartSentinel starts a Sentinel group for one test and stops it with the test.
func StartSentinel(tb testing.TB, cfg Config) *Sentinel {
	tb.Helper()
	return start(tb, cfg, startSentinel)
}

func startSentinel(ctx context.Context, cfg Config) (*Sentinel, error) {
	g, err := newGroup(cfg)
	if err != nil {
		return nil, err
	}
	s := &Sentinel{group: g}
	if err = s.form(ctx); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return s, nil
}

func (s *Sentinel) form(ctx context.Context) error {
	master, err := s.start(ctx, spec{role: "server0"})
	if err != nil {
		return err
	}
	var specs []spec
	for i := range sentinelReplicas {
		specs = append(specs, spec{
			role:  "server" + strconv.Itoa(i+1),
			lines: []string{fmt.Sprintf("replicaof 127.0.0.1 %d", master.port)},
		})
	}
	for i := range sentinelCount {
		specs = append(specs, spec{
			role:     "sentinel" + strconv.Itoa(i),
			sentinel: true,
			lines:    s.watchLines(master),
			prepare:  hurry,
		})
	}
	others, err := s.startAll(ctx, specs)
	if err != nil {
		return err
	}
	s.watched = append([]*Server{master}, others[:sentinelReplicas]...)
	s.watchers = others[sentinelReplicas:]
	return s.WaitHealthy(ctx)
}

// watchLines returns the configuration of a sentinel.
func (s *Sentinel) watchLines(master *Server) []string {
	lines := []string{
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d %d", sentinelMasterName, master.port, sentinelQuorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s 1000", sentinelMasterName),
		fmt.Sprintf("sentinel failover-timeout %s 3000", sentinelMasterName),
		fmt.Sprintf("sentinel parallel-syncs %s %d", sentinelMasterName, sentinelReplicas),
	}
	if s.admin == "" {
		return lines
	}
	lines = append(lines,
		fmt.Sprintf("sentinel auth-user %s %s", sentinelMasterName, s.admin),
		fmt.Sprintf("sentinel auth-pass %s %s", sentinelMasterName, s.adminPass))
	if !s.cfg.OpenSentinels {
		lines = append(lines,
			"sentinel sentinel-user "+s.admin,
			"sentinel sentinel-pass "+s.adminPass)
	}
	return lines
}

// hurry shortens the polling intervals of a sentinel, 1 to 10 s by default, and the 30 s
// for which it does nothing after it was frozen (TILT). Redis 6.2 does not support this
// and is slower.
func hurry(conn *session) error {
	_, err := conn.do("SENTINEL", "DEBUG", "INFO-PERIOD", 500, "PING-PERIOD", 200,
		"ASK-PERIOD", 200, "PUBLISH-PERIOD", 250, "TILT-PERIOD", 1000)
	if reply := ReplyError(""); errors.As(err, &reply) {
		return nil
	}
	return err
}

// MasterName returns the name of the master in the sentinels.
func (s *Sentinel) MasterName() string { return sentinelMasterName }

// Servers returns the master and its replicas, whichever is the master now.
func (s *Sentinel) Servers() []*Server { return slices.Clone(s.watched) }

// Sentinels returns the sentinels.
func (s *Sentinel) Sentinels() []*Server { return slices.Clone(s.watchers) }

// Addrs returns the addresses of the sentinels.
func (s *Sentinel) Addrs() []string { return addrsOf(s.watchers) }

// Addr returns the address of one sentinel.
func (s *Sentinel) Addr() string { return s.watchers[0].addr }

// URI returns a URI with the sentinels, the master and the credentials:
// redis-sentinel://user:password@host1,host2,host3/master-name, or rediss-sentinel:// with
// TLS. The credentials are those of the servers, and of the sentinels unless
// [Config.OpenSentinels].
func (s *Sentinel) URI() string {
	return s.uri("redis-sentinel", s.Addrs(), "/"+sentinelMasterName)
}

// SentinelUsername returns the user of a client of the sentinels.
func (s *Sentinel) SentinelUsername() string { return s.watchers[0].username }

// SentinelPassword returns the password for the sentinels, empty if they need none.
func (s *Sentinel) SentinelPassword() string { return s.watchers[0].password }

// MasterAddr returns the master's address as the first running sentinel reports it. The
// others may report a new master a moment later.
func (s *Sentinel) MasterAddr(ctx context.Context) (string, error) {
	watching := running(s.watchers)
	if len(watching) == 0 {
		return "", errors.New("no sentinel is running")
	}
	return masterAddr(ctx, watching[0])
}

// Master returns the server at MasterAddr.
func (s *Sentinel) Master(ctx context.Context) (*Server, error) {
	addr, err := s.MasterAddr(ctx)
	if err != nil {
		return nil, err
	}
	if m := findAddr(s.watched, addr); m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("the master %s is not in the group", addr)
}

func masterAddr(ctx context.Context, sentinel *Server) (string, error) {
	reply, err := sentinel.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinelMasterName)
	if err != nil {
		return "", err
	}
	pair, _ := reply.([]any)
	if len(pair) != 2 {
		return "", fmt.Errorf("%s reports no master", sentinel.addr)
	}
	return net.JoinHostPort(pair[0].(string), pair[1].(string)), nil
}
