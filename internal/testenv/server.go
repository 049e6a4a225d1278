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

// Server is one redis-server, or one sentinel. Its methods may be called from
// several goroutines.
type Server struct {
	access
	group *group // nil when the server is not ours
	addr  string
	port  int
	dir   string
	spec  spec

	mu     sync.Mutex
	proc   *process
	frozen bool
}

// ErrNotOwned is what the methods that hurt a server answer when it is the one
// that FLUXGATE_TEST_REDIS_URI names.
var ErrNotOwned = errors.New("testenv: the server is not ours to stop")

var (
	errPortTaken  = errors.New("the port was taken")
	errNotRunning = errors.New("the server is not running")
)

const (
	probeTimeout = time.Second      // one question whether a starting server is ready
	stopTimeout  = 15 * time.Second // Redis itself waits up to 10 s for its replicas
)

// Addr is the server's host and port.
func (s *Server) Addr() string { return s.addr }

// Addrs is Addr as a list, as clusters and sentinels have it.
func (s *Server) Addrs() []string { return []string{s.addr} }

// URI is the server's address with credentials: redis:// or rediss://.
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

// Pid is the process id, 0 when the server is not running or not ours.
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

// Do runs a command on a connection of its own, with all rights whatever the
// test's users may do. Replies are string, int64, []any or nil; an error reply
// is a [ReplyError]. Arguments other than string and []byte are printed.
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

// Info is the fields of an INFO section, such as "commandstats".
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

// Kill ends the server with SIGKILL, as a crash does, and waits until it is gone.
func (s *Server) Kill() error {
	return s.act(func(p *process) error {
		s.frozen = false
		return p.kill()
	})
}

// Freeze stops the server with SIGSTOP: the kernel still accepts connections and
// bytes for it, and nothing answers until Thaw.
func (s *Server) Freeze() error {
	return s.act(func(p *process) error {
		if err := p.freeze(context.Background()); err != nil {
			return err
		}
		s.frozen = true
		return nil
	})
}

// Thaw lets a frozen server go on where it stood.
func (s *Server) Thaw() error {
	return s.act(func(p *process) error {
		if err := p.thaw(); err != nil {
			return err
		}
		s.frozen = false
		return nil
	})
}

// Stop ends the server the way an operator does, with SIGTERM, and waits until
// it is gone. Restart brings it back.
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

// Restart starts the server again on its port and in its data directory, after
// stopping it if it still runs, and waits until it answers. A cluster node keeps
// its identity and a sentinel what it knew; data survives with [Config.Persist]
// only, apart from what a replica copies from its master.
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
			return err // someone has it for the moment
		}
		failed = err
		return nil
	})
	return errors.Join(err, failed)
}

// act runs f on the live process, one action at a time.
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

// boot starts the process and waits until it, and not another server on a port
// it failed to get, answers.
func (s *Server) boot(ctx context.Context) error {
	var before int64
	if st, err := os.Stat(s.logFile()); err == nil {
		before = st.Size()
	}
	args := []string{filepath.Join(s.dir, "redis.conf")}
	if s.spec.sentinel {
		args = append(args, "--sentinel")
	}
	p, err := launch(s.group.program, args, s.dir, s.logFile())
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
		err = errors.New("it ended at once")
	}
	return fmt.Errorf("start redis-server on %s: %w\n%s", s.addr, err, s.logTail())
}

// ready asks a starting server who it is and whether it takes commands.
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

// logTail is the end of the server's log, for people.
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
