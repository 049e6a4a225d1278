package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// mongoVariable names the server that SharedMongo uses instead of its own.
const mongoVariable = "FLUXGATE_TEST_MONGO_URI"

// Mongo is a server with MongoDB's protocol: FerretDB over SQLite, or the MongoDB of
// FLUXGATE_TEST_MONGO_URI. Its methods may be called concurrently.
type Mongo struct {
	uri     string
	program string // empty if not started by this package
	addr    string
	port    int
	dir     string

	mu   sync.Mutex
	proc *process
}

// StartMongo starts a server for one test and stops it with the test.
func StartMongo(tb testing.TB) *Mongo {
	tb.Helper()
	return start(tb, Config{}, func(ctx context.Context, _ Config) (*Mongo, error) { return startMongo(ctx) })
}

// SharedMongo returns the test binary's MongoDB server, or the one of
// FLUXGATE_TEST_MONGO_URI. Tests must use their own databases.
func SharedMongo(tb testing.TB) *Mongo {
	tb.Helper()
	return mongo.get(tb, func(ctx context.Context) (*Mongo, error) {
		if uri := os.Getenv(mongoVariable); uri != "" {
			return &Mongo{uri: uri}, nil
		}
		return startMongo(ctx)
	})
}

func startMongo(ctx context.Context) (*Mongo, error) {
	program, err := ferretProgram()
	if err != nil {
		return nil, err
	}
	// The build has its own timeout.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	const attempts = 10
	for range attempts {
		var m *Mongo
		if m, err = attemptMongo(ctx, program); err == nil {
			return m, nil
		}
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	return nil, err
}

// attemptMongo starts a server on a port that was just free.
func attemptMongo(ctx context.Context, program string) (*Mongo, error) {
	dir, err := makeDir()
	if err != nil {
		return nil, err
	}
	m := &Mongo{program: program, dir: dir}
	if m.port, err = reservePort(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	m.addr = loopback(m.port)
	m.uri = "mongodb://" + m.addr + "/"
	err = os.Mkdir(m.dataDir(), 0o700)
	if err == nil {
		err = m.boot(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// URI returns the server's address, with credentials if this package did not start it.
func (m *Mongo) URI() string { return m.uri }

// Addr returns host and port of a server started by this package.
func (m *Mongo) Addr() string { return m.addr }

// Owned reports whether this package started the server, so that Kill, Freeze,
// Thaw and Restart are available.
func (m *Mongo) Owned() bool { return m.program != "" }

// Kill ends the server with SIGKILL, like a crash, and waits until it has ended. Its
// data stays for Restart.
func (m *Mongo) Kill() error { return m.act((*process).kill) }

// Freeze stops the server with SIGSTOP: the kernel still accepts connections and bytes,
// but nothing answers until Thaw.
func (m *Mongo) Freeze() error {
	return m.act(func(p *process) error { return p.freeze(context.Background()) })
}

// Thaw continues a frozen server.
func (m *Mongo) Thaw() error { return m.act((*process).thaw) }

// Restart starts a killed server again on its port and with its data, and waits
// until it answers.
func (m *Mongo) Restart(ctx context.Context) error {
	if !m.Owned() {
		return ErrNotOwned
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc != nil && !m.proc.ended() {
		if err := m.proc.kill(); err != nil {
			return err
		}
	}
	var failed error
	err := poll(ctx, func(ctx context.Context) error {
		err := m.boot(ctx)
		if errors.Is(err, errPortTaken) {
			return err // another process uses the port
		}
		failed = err
		return nil
	})
	return errors.Join(err, failed)
}

// act calls f with the live process, one action at a time.
func (m *Mongo) act(f func(*process) error) error {
	if !m.Owned() {
		return ErrNotOwned
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.proc == nil || m.proc.ended() {
		return fmt.Errorf("%s: %w", m.addr, errNotRunning)
	}
	return f(m.proc)
}

// boot starts the process and waits until it listens.
func (m *Mongo) boot(ctx context.Context) error {
	before := len(m.log())
	p, err := launch(m.program, []string{m.addr, m.dataDir()}, m.dir, m.logFile())
	if err != nil {
		return err
	}
	output := func() string { return m.log()[before:] }
	err = poll(ctx, func(context.Context) error {
		if p.ended() || strings.Contains(output(), "listening on "+m.addr) {
			return nil
		}
		return errors.New("not listening yet")
	})
	if err == nil && !p.ended() {
		m.proc = p
		return nil
	}
	_ = p.kill()
	if strings.Contains(output(), "address already in use") {
		return fmt.Errorf("%s: %w", m.addr, errPortTaken)
	}
	if err == nil {
		err = errors.New("the process ended at once")
	}
	return fmt.Errorf("start FerretDB on %s: %w\n%s", m.addr, err, m.log())
}

func (m *Mongo) dataDir() string { return filepath.Join(m.dir, "data") }
func (m *Mongo) logFile() string { return filepath.Join(m.dir, "ferretdb.log") }

// log returns the server's output.
func (m *Mongo) log() string {
	text, _ := os.ReadFile(m.logFile())
	return string(text)
}

func (m *Mongo) lifecycle() lifecycle {
	if !m.Owned() {
		return nil
	}
	return m
}

func (m *Mongo) report(tb testing.TB) {
	tb.Helper()
	if tb.Failed() {
		tb.Logf("--- %s (FerretDB)\n%s", m.addr, m.log())
	}
}

func (m *Mongo) close() error {
	err := m.Kill()
	if errors.Is(err, errNotRunning) {
		err = nil
	}
	releasePort(m.port)
	return errors.Join(err, os.RemoveAll(m.dir))
}
