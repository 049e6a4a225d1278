package server_test

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// strictMongo is MongoDB with authentication, which FerretDB over SQLite does not have: it
// answers saslStart of the mechanism PLAIN itself, and passes other commands on if the
// password of their connection is accepted at that time.
type strictMongo struct {
	t      *testing.T
	addr   string // of FerretDB
	net    net.Listener
	served sync.WaitGroup

	mu       sync.Mutex
	accepted map[string]bool // "user password"
	latest   string          // the last one accepted
}

func startStrictMongo(t *testing.T, addr string) *strictMongo {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &strictMongo{t: t, addr: addr, net: l, accepted: map[string]bool{}}
	m.served.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			m.served.Go(func() { m.serve(conn) })
		}
	})
	t.Cleanup(func() { // after the server has ended
		_ = l.Close()
		m.served.Wait()
	})
	return m
}

// accept accepts these users and passwords only.
func (m *strictMongo) accept(logins ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.accepted)
	for _, l := range logins {
		m.accepted[l] = true
	}
}

func (m *strictMongo) accepts(login string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.accepted[login] {
		m.latest = login
	}
	return m.accepted[login]
}

// lastAccepted is the login of the last connection or command that was accepted.
func (m *strictMongo) lastAccepted() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest
}

// message is a message of the wire protocol.
type message []byte

func readMessage(from io.Reader) (message, error) {
	size := make([]byte, 4)
	if _, err := io.ReadFull(from, size); err != nil {
		return nil, err
	}
	all := make(message, binary.LittleEndian.Uint32(size))
	copy(all, size)
	_, err := io.ReadFull(from, all[4:])
	return all, err
}

// body is the command of an OP_MSG, nil for another message.
func (m message) body() bson.Raw {
	if binary.LittleEndian.Uint32(m[12:]) != 2013 || m[20] != 0 {
		return nil
	}
	return bson.Raw(m[21:][:binary.LittleEndian.Uint32(m[21:])])
}

// answer is an OP_MSG that answers this one.
func (m message) answer(t *testing.T, body bson.D) message {
	raw, err := bson.Marshal(body)
	if err != nil {
		t.Error(err)
	}
	a := make(message, 21, 21+len(raw))
	binary.LittleEndian.PutUint32(a, uint32(21+len(raw)))
	copy(a[8:12], m[4:8])
	binary.LittleEndian.PutUint32(a[12:], 2013)
	return append(a, raw...)
}

func (m *strictMongo) serve(conn net.Conn) {
	defer conn.Close()
	server, err := new(net.Dialer).DialContext(m.t.Context(), "tcp", m.addr)
	if err != nil {
		return
	}
	defer server.Close()
	login := ""
	for {
		asked, err := readMessage(conn)
		if err != nil {
			return
		}
		var answer message
		body := asked.body()
		command := ""
		if elements, _ := body.Elements(); len(elements) > 0 {
			command = elements[0].Key()
		}
		switch {
		case command == "saslStart":
			_, payload := body.Lookup("payload").Binary()
			login = strings.ReplaceAll(strings.Trim(string(payload), "\x00"), "\x00", " ")
			answer = asked.answer(m.t, bson.D{{Key: "ok", Value: 1}, {Key: "done", Value: true}, {Key: "conversationId", Value: 1}, {Key: "payload", Value: []byte{}}})
			if !m.accepts(login) {
				answer = asked.answer(m.t, bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 18}, {Key: "errmsg", Value: "Authentication failed."}})
			}
		case body != nil && command != "hello" && command != "endSessions" && command != "ping" && !m.accepts(login):
			answer = asked.answer(m.t, bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: 13}, {Key: "errmsg", Value: "not authorized"}})
		default:
			if _, err = server.Write(asked); err == nil {
				answer, err = readMessage(server)
			}
		}
		if err != nil {
			return
		}
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// Rules in MongoDB follow a user and a password that rotate, and the last ones stay in effect
// while the password is refused.
func TestRotate_Mongo(t *testing.T) {
	db, uri := newDatabase(t)
	insertRule(t, db, "everyone", oneBand(41))
	parsed, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	mongo := startStrictMongo(t, parsed.Host)
	mongo.accept("app-1 secret@1")
	folder := t.TempDir()
	userFile, passwordFile := filepath.Join(folder, "username"), filepath.Join(folder, "password")
	write(t, userFile, "app-1\n")
	write(t, passwordFile, "secret@1\n")
	r, log := startLogged(t, "redis.enabled=false", "mongo.enabled=true",
		"mongo.uri=mongodb://"+mongo.net.Addr().String()+parsed.Path+"?authMechanism=PLAIN",
		"mongo.username-file="+userFile, "mongo.password-file="+passwordFile)
	wants := func(limit float64) {
		t.Helper()
		testenv.Eventually(t, "the rules are in effect", func() bool { return r.check(t, "ada")["limit"] == limit })
	}
	wants(41)

	mongo.accept("app-1 secret@1", "app-2 secret@2")
	write(t, userFile, "app-2\n")
	write(t, passwordFile, "secret@2\n")
	// The log says that they were read; calls that begin in that moment still use the former ones.
	testenv.Eventually(t, "the credentials are in use", func() bool { return mongo.lastAccepted() == "app-2 secret@2" })
	if log.Lines("the credentials have changed") == nil {
		t.Errorf("the log does not say that the credentials have changed: %s", log)
	}
	mongo.accept("app-2 secret@2")
	if a := r.put(t, 42, "If-Match", `"1"`); a.status != http.StatusOK {
		t.Errorf("with new credentials: %+v", a)
	}
	wants(42)

	mongo.accept("app-2 secret@3")
	testenv.Eventually(t, "health says that the source fails", func() bool { return r.Health(t.Context()).Rules.Status == "degraded" })
	wants(42)
	write(t, passwordFile, "secret@3\n")
	testenv.Eventually(t, "health is up again", func() bool { return r.Health(t.Context()).Rules.Status == "up" })
	if strings.Contains(log.String(), "secret@") {
		t.Errorf("it logs a password: %s", log)
	}
}
