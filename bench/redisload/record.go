package redisload

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// RecordCalls returns the first n calls of its script that the store makes while
// decide runs, as the server sees them.
func RecordCalls(t *testing.T, server *testenv.Server, n int, decide func() error) [][]any {
	t.Helper()
	connection, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	var deciding sync.WaitGroup
	defer deciding.Wait()
	var seen atomic.Bool
	defer seen.Store(true)
	defer func() { _ = connection.Close() }()
	if err := connection.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := connection.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	var calls [][]any
	lines := bufio.NewScanner(connection)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "+OK" { // MONITOR has started
			deciding.Go(func() {
				for !seen.Load() { // one call may serve many callers
					if err := decide(); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		if i := strings.Index(line, `"EVALSHA"`); i >= 0 {
			if calls = append(calls, parseMonitor(t, line[i:])); len(calls) == n {
				return calls
			}
		}
	}
	t.Fatalf("the server saw %d calls of the store: %v", len(calls), lines.Err())
	return nil
}

// parseMonitor reads the quoted arguments of a line of MONITOR.
func parseMonitor(t *testing.T, line string) []any {
	t.Helper()
	var args []any
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			t.Fatalf("%v in %q", err, rest)
		}
		arg, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, arg)
		rest = rest[len(quoted):]
	}
	return args
}
