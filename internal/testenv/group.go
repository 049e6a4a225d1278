package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// group has the servers of one environment, under one directory.
type group struct {
	access
	cfg     Config
	program string
	dir     string

	mu      sync.Mutex
	servers []*Server
}

// spec has the settings of one server of a group.
type spec struct {
	role     string // in messages, and the directory's name
	sentinel bool
	lines    []string             // of redis.conf
	prepare  func(*session) error // called after each start
}

// errNoProgram says how to install the program.
var errNoProgram = errors.New("redis-server is not installed; install it with: apt-get install -y redis-server (or run go test -short to leave out the tests that need it)")

func newGroup(cfg Config) (*group, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoProgram
	}
	dir, err := makeDir()
	if err != nil {
		return nil, err
	}
	g := &group{cfg: cfg, program: program, dir: dir}
	var certs *Certificates
	if cfg.TLS || cfg.MutualTLS {
		if certs, err = newCertificates(dir); err != nil {
			return nil, errors.Join(err, g.close())
		}
	}
	g.access = newAccess(cfg, certs)
	return g, nil
}

// makeDir creates the group's directory, in memory if possible: cluster nodes and
// sentinels write their state to disk at every change, which can take seconds on a busy
// disk and would count as a failure.
func makeDir() (string, error) {
	const pattern = "fluxgate-testenv-"
	if os.Getenv("TMPDIR") == "" {
		if dir, err := os.MkdirTemp("/dev/shm", pattern); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp("", pattern)
}

// start adds a server on a new port.
func (g *group) start(ctx context.Context, sp spec) (*Server, error) {
	const attempts = 10
	var err error
	for range attempts {
		var s *Server
		if s, err = g.attempt(ctx, sp); err == nil {
			g.mu.Lock()
			g.servers = append(g.servers, s)
			g.mu.Unlock()
			return s, nil
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, err
}

// attempt starts a server on a port that was just free.
func (g *group) attempt(ctx context.Context, sp spec) (*Server, error) {
	port, err := reservePort()
	if err != nil {
		return nil, err
	}
	s := &Server{
		access: g.access,
		group:  g,
		addr:   loopback(port),
		port:   port,
		dir:    filepath.Join(g.dir, fmt.Sprintf("%s-%d", sp.role, port)),
		spec:   sp,
	}
	if sp.sentinel && g.cfg.OpenSentinels {
		s.access = g.open()
	}
	err = os.Mkdir(s.dir, 0o700)
	if err == nil {
		conf := strings.Join(g.confLines(s), "\n") + "\n"
		err = os.WriteFile(filepath.Join(s.dir, "redis.conf"), []byte(conf), 0o600)
	}
	if err == nil {
		err = s.boot(ctx)
	}
	if err != nil {
		releasePort(port)
		return nil, err
	}
	return s, nil
}

// startAll starts a server per spec concurrently and returns them in order.
func (g *group) startAll(ctx context.Context, specs []spec) ([]*Server, error) {
	servers := make([]*Server, len(specs))
	errs := make([]error, len(specs))
	var wg sync.WaitGroup
	for i, sp := range specs {
		wg.Go(func() { servers[i], errs[i] = g.start(ctx, sp) })
	}
	wg.Wait()
	return servers, errors.Join(errs...)
}

// confLines returns the redis.conf of a server. Sentinels have no data and no
// replication.
func (g *group) confLines(s *Server) []string {
	lines := []string{
		"bind 127.0.0.1",
		"protected-mode no",
		"daemonize no",
		"dir " + s.dir,
	}
	if g.certs != nil {
		lines = append(lines, "port 0", fmt.Sprintf("tls-port %d", s.port))
		lines = append(lines, tlsLines(g.certs, g.cfg.MutualTLS)...)
	} else {
		lines = append(lines, fmt.Sprintf("port %d", s.port))
	}
	lines = append(lines, userLines(g.cfg, s.access, s.spec.sentinel)...)
	if !s.spec.sentinel {
		lines = append(lines, `save ""`)
		lines = append(lines, replicationLines...)
		if g.admin != "" {
			lines = append(lines, "masteruser "+g.admin, "masterauth "+g.adminPass)
		}
		if g.cfg.Persist {
			lines = append(lines, "appendonly yes", "appendfsync always")
		} else {
			lines = append(lines, "appendonly no")
		}
		lines = append(lines, g.cfg.Directives...)
	}
	return append(lines, s.spec.lines...)
}

// lifecycle implements environment.
func (g *group) lifecycle() lifecycle { return g }

// report logs the end of every server's log if the test failed.
func (g *group) report(tb testing.TB) {
	tb.Helper()
	if !tb.Failed() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.servers {
		tb.Log(s.logTail())
	}
}

// close kills every server and removes the files. A graceful stop is not needed:
// nothing must be saved, and masters would wait for their replicas.
func (g *group) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for _, s := range g.servers {
		if err := s.Kill(); err != nil && !errors.Is(err, errNotRunning) {
			errs = append(errs, err)
		}
		releasePort(s.port)
	}
	g.servers = nil
	return errors.Join(append(errs, os.RemoveAll(g.dir))...)
}
