package redisload

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// RecordCalls opens a store of its own on a server, and returns the first n calls of its
// script while it decides, as it sent them. MONITOR does not do: Valkey 8.1 does not escape
// quotes and backslashes there.
func RecordCalls(t *testing.T, server *testenv.Server, n int, decide func(store.Store) error) [][]any {
	t.Helper()
	record := &record{want: n, full: make(chan struct{})}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), Dialer: record.dial})
	defer func() { _ = client.Close() }()
	buckets, err := redisstore.New(t.Context(), client, config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = buckets.Close() }()
	for {
		if err := decide(buckets); err != nil { // one call may serve many callers
			t.Fatal(err)
		}
		select {
		case <-record.full:
			return record.calls
		default:
		}
	}
}

// record is the calls of a script that connections send.
type record struct {
	want int
	full chan struct{} // closed when calls has as many

	mu    sync.Mutex
	calls [][]any
}

func (r *record) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	sent, copied := io.Pipe()
	go r.read(sent)
	return recorded{connection, copied}, nil
}

// read keeps the calls among the commands of a connection.
func (r *record) read(sent *io.PipeReader) {
	commands := bufio.NewReader(sent)
	for {
		command, err := readCommand(commands)
		if err != nil {
			_ = sent.CloseWithError(err)
			return
		}
		if !strings.EqualFold(command[0].(string), "EVALSHA") {
			continue
		}
		r.mu.Lock()
		if len(r.calls) < r.want {
			if r.calls = append(r.calls, command); len(r.calls) == r.want {
				close(r.full)
			}
		}
		r.mu.Unlock()
	}
}

// recorded is a connection that also writes to a record what it sends.
type recorded struct {
	net.Conn
	copied *io.PipeWriter
}

func (c recorded) Write(p []byte) (int, error) {
	_, _ = c.copied.Write(p)
	return c.Conn.Write(p)
}

func (c recorded) Close() error {
	_ = c.copied.Close()
	return c.Conn.Close()
}

// readCommand reads a command as clients write it: an array of bulk strings.
func readCommand(r *bufio.Reader) ([]any, error) {
	count, err := readLength(r)
	if err != nil {
		return nil, err
	}
	command := make([]any, count)
	for i := range command {
		length, err := readLength(r)
		if err != nil {
			return nil, err
		}
		arg := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(r, arg); err != nil {
			return nil, err
		}
		command[i] = string(arg[:length])
	}
	return command, nil
}

// readLength reads a line such as *3 or $12.
func readLength(r *bufio.Reader) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimRight(line[1:], "\r\n"))
}
