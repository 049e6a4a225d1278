package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Server is one redis-server or sentinel. Its methods may be called concurrently.
type Server struct {
	access
	group *group // nil if not started by this package
	addr  string
	port  int
	dir   string
	spec  spec

	mu     sync.Mutex
	proc   *process
	frozen bool
}

// ErrNotOwned is returned by methods that stop a server if it is the one of
// FLUXGATE_TEST_REDIS_URI.
var ErrNotOwned = errors.New("testenv: the server was not started by this package and cannot be stopped")

var (
	errPortTaken  = errors.New("the port is in use")
	errNotRunning = errors.New("the server is not running")
)

const (
	probeTimeout = time.Second      // for one check of a starting server
	stopTimeout  = 15 * time.Second // Redis itself waits up to 10 s for its replicas
)

// Addr returns the server's host and port.
func (s *Server) Addr() string { return s.addr }

// Addrs returns Addr as a list, like that of clusters and sentinels.
func (s *Server) Addrs() []string { return []string{s.addr} }

// URI returns the server's address with credentials: redis:// or rediss://.
func (s *Server) URI() string {
	path := ""
	if s.db != 0 {
		path = "/" + strconv.Itoa(s.db)
	}
	return s.uri("redis", s.Addrs(), path)
}

// Owned reports whether this package started the server, so that Kill, Freeze,
// Thaw, Stop and Restart are available.
func (s *Server) Owned() bool { return s.group != nil }

// Pid returns the process id, 0 if the server is not running or not owned.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.ended() {
		return 0
	}
	return s.proc.pid()
}

// Running reports whether the server can answer: neither ended nor frozen.
func (s *Server) Running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.Owned() || s.proc != nil && !s.proc.ended() && !s.frozen
}

// Do runs a command on a new connection as the administrator. Replies are string, int64,
// []any or nil; an error reply is a [ReplyError]. Arguments other than string and []byte
// are formatted with fmt.
func (s *Server) Do(ctx context.Context, args ...any) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("testenv: no command")
	}
	conn, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	reply, err := conn.do(args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %v: %w", s.addr, args[0], err)
	}
	return reply, nil
}

// Info returns the fields of an INFO section, such as "commandstats".
func (s *Server) Info(ctx context.Context, section string) (map[string]string, error) {
	conn, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	return conn.info(section)
}

func (s *Server) session(ctx context.Context) (*session, error) {
	conn, err := connect(ctx, s.addr, s.tls)
	if err != nil {
		return nil, err
	}
	user, password := s.admin, s.adminPass
	if !s.Owned() {
		user, password = s.username, s.password
	}
	if err := conn.login(user, password, s.db); err != nil {
		conn.close()
		return nil, fmt.Errorf("%s: %w", s.addr, err)
	}
	return conn, nil
}

// Kill ends the server with SIGKILL, like a crash, and waits until it has ended.
func (s *Server) Kill() error {
	return s.act(func(p *process) error {
		s.frozen = false
		return p.kill()
	})
}

// Freeze stops the server with SIGSTOP: the kernel still accepts connections and bytes,
// but nothing answers until Thaw.
func (s *Server) Freeze() error {
	return s.act(func(p *process) error {
		if err := p.freeze(context.Background()); err != nil {
			return err
		}
		s.frozen = true
		return nil
	})
}

// Thaw continues a frozen server.
func (s *Server) Thaw() error {
	return s.act(func(p *process) error {
		if err := p.thaw(); err != nil {
			return err
		}
		s.frozen = false
		return nil
	})
}

// Stop ends the server with SIGTERM and waits until it has ended. Restart starts it
// again.
func (s *Server) Stop() error { return s.act(s.stop) }

func (s *Server) stop(p *process) error {
	if s.frozen {
		if err := p.thaw(); err != nil {
			return err
		}
		s.frozen = false
	}
	if err := p.terminate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := p.wait(ctx); err != nil {
		return errors.Join(fmt.Errorf("%s did not stop: %w", s.addr, err), p.kill())
	}
	return nil
}

// Restart starts the server again with its port and data directory, after stopping it if
// it runs, and waits until it answers. A cluster node keeps its identity and a sentinel
// its state; data survives only with [Config.Persist], except for what a replica copies
// from its master.
func (s *Server) Restart(ctx context.Context) error {
	if !s.Owned() {
		return ErrNotOwned
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil && !s.proc.ended() {
		if err := s.stop(s.proc); err != nil {
			return err
		}
	}
	var failed error
	err := poll(ctx, func(ctx context.Context) error {
		err := s.boot(ctx)
		if errors.Is(err, errPortTaken) {
			return err // another process uses the port
		}
		failed = err
		return nil
	})
	return errors.Join(err, failed)
}

// act calls f with the live process, one action at a time.
func (s *Server) act(f func(*process) error) error {
	if !s.Owned() {
		return ErrNotOwned
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.ended() {
		return fmt.Errorf("%s: %w", s.addr, errNotRunning)
	}
	return f(s.proc)
}

// boot starts the process and waits until it answers, and not another server on the same
// port.
func (s *Server) boot(ctx context.Context) error {
	var before int64
	if st, err := os.Stat(s.logFile()); err == nil {
		before = st.Size()
	}
	args := []string{filepath.Join(s.dir, "redis.conf")}
	if s.spec.sentinel {
		args = append(args, "--sentinel")
	}
	var environ []string
	if s.group.cfg.SteppedClock && !s.spec.sentinel {
		var err error
		if environ, err = s.clockEnviron(); err != nil {
			return err
		}
	}
	p, err := launch(s.group.program, args, s.dir, s.logFile(), environ...)
	if err != nil {
		return err
	}
	err = poll(ctx, func(ctx context.Context) error {
		if p.ended() {
			return nil
		}
		return s.ready(ctx, p.pid())
	})
	if err == nil && !p.ended() {
		s.proc, s.frozen = p, false
		return nil
	}
	_ = p.kill()
	log, _ := os.ReadFile(s.logFile())
	if int64(len(log)) >= before && strings.Contains(string(log[before:]), "Address already in use") {
		return fmt.Errorf("%s: %w", s.addr, errPortTaken)
	}
	if err == nil {
		err = errors.New("the process ended at once")
	}
	return fmt.Errorf("start redis-server on %s: %w\n%s", s.addr, err, s.logTail())
}

// ready checks that a starting server has this pid and accepts commands.
func (s *Server) ready(ctx context.Context, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := s.session(ctx)
	if err != nil {
		return err
	}
	defer conn.close()
	info, err := conn.info("server")
	if err != nil {
		return err
	}
	if got := info["process_id"]; got != strconv.Itoa(pid) {
		return fmt.Errorf("pid %s answers instead of %d", got, pid)
	}
	if _, err := conn.do("PING"); err != nil {
		return err
	}
	if s.spec.prepare != nil {
		return s.spec.prepare(conn)
	}
	return nil
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "redis.log") }

// logTail returns the end of the server's log.
func (s *Server) logTail() string {
	const most = 4 << 10
	log, err := os.ReadFile(s.logFile())
	if err != nil {
		return err.Error()
	}
	if len(log) > most {
		log = log[len(log)-most:]
	}
	return fmt.Sprintf("--- %s (%s)\n%s", s.addr, s.spec.role, log)
}
