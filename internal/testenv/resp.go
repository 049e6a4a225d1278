package testenv

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// ReplyError is an error reply, such as "NOSCRIPT No matching script". Inside an array it
// is a value.
type ReplyError string

func (e ReplyError) Error() string { return string(e) }

// commandTimeout bounds a command whose context has no deadline, so that a frozen server
// fails a test instead of blocking it.
const commandTimeout = 10 * time.Second

// session is one connection, for one goroutine.
type session struct {
	conn    net.Conn
	r       *bufio.Reader
	release func()
}

// connect opens a session that ends with ctx at the latest.
func connect(ctx context.Context, addr string, tlsConf *tls.Config) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	var conn net.Conn
	var err error
	if tlsConf != nil {
		conn, err = (&tls.Dialer{Config: tlsConf}).DialContext(ctx, "tcp", addr)
	} else {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return &session{
		conn:    conn,
		r:       bufio.NewReader(conn),
		release: func() { stop(); cancel() },
	}, nil
}

// login authenticates and selects the database, if needed.
func (s *session) login(user, password string, db int) error {
	if password != "" {
		auth := []any{"AUTH", password}
		if user != "" {
			auth = []any{"AUTH", user, password}
		}
		if _, err := s.do(auth...); err != nil {
			return fmt.Errorf("log in: %w", err)
		}
	}
	if db != 0 {
		if _, err := s.do("SELECT", db); err != nil {
			return fmt.Errorf("select database %d: %w", db, err)
		}
	}
	return nil
}

func (s *session) close() {
	s.release()
	_ = s.conn.Close()
}

// do sends one command and reads its reply. An error reply is returned as the error.
func (s *session) do(args ...any) (any, error) {
	if _, err := s.conn.Write(encode(args)); err != nil {
		return nil, err
	}
	reply, err := decode(s.r)
	if err != nil {
		return nil, err
	}
	if e, ok := reply.(ReplyError); ok {
		return nil, e
	}
	return reply, nil
}

// text is do for commands that return a string.
func (s *session) text(args ...any) (string, error) {
	reply, err := s.do(args...)
	if err != nil {
		return "", err
	}
	str, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("%v answered %T, not a string", args[0], reply)
	}
	return str, nil
}

// encode encodes a command as an array of bulk strings.
func encode(args []any) []byte {
	buf := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		var s string
		switch v := arg.(type) {
		case string:
			s = v
		case []byte:
			s = string(v)
		default:
			s = fmt.Sprint(v)
		}
		buf = fmt.Appendf(buf, "$%d\r\n%s\r\n", len(s), s)
	}
	return buf
}

// decode decodes one RESP2 reply: string, int64, []any, nil or ReplyError.
func decode(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("empty reply line")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return ReplyError(rest), nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("reply %q: %w", line, err)
	}
	switch {
	case kind == ':':
		return n, nil
	case kind == '$' && n < 0, kind == '*' && n < 0:
		return nil, nil
	case kind == '$':
		buf := make([]byte, n+2)
		if _, err := io.ReadFull(r, buf); err != nil {
			return nil, err
		}
		return string(buf[:n]), nil
	case kind == '*':
		items := make([]any, n)
		for i := range items {
			if items[i], err = decode(r); err != nil {
				return nil, err
			}
		}
		return items, nil
	}
	return nil, fmt.Errorf("reply %q is not RESP2", line)
}

// info returns the fields of an INFO section. CLUSTER INFO has the same format.
func (s *session) info(section string) (map[string]string, error) {
	text, err := s.text("INFO", section)
	if err != nil {
		return nil, err
	}
	return fields(text), nil
}

// fields parses "name:value" lines.
func fields(text string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}
