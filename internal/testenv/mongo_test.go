package testenv

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// hello sends a hello command in the wire protocol, without a driver.
func hello(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	body := []byte("\x10hello\x00\x01\x00\x00\x00\x02$db\x00\x06\x00\x00\x00admin\x00\x00")
	doc := binary.LittleEndian.AppendUint32(nil, uint32(4+len(body)))
	doc = append(doc, body...)
	message := binary.LittleEndian.AppendUint32(nil, uint32(16+4+1+len(doc)))
	message = append(message, "\x01\x00\x00\x00\x00\x00\x00\x00\xdd\x07\x00\x00\x00\x00\x00\x00\x00"...)
	if _, err := conn.Write(append(message, doc...)); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 16))
	return err
}

// A server answers and ends with the test.
func TestMongo_EndsWithTest(t *testing.T) {
	skipShort(t)
	var m *Mongo
	o := observe(func(tb testing.TB) {
		m = StartMongo(tb)
		if err := hello(testContext(t), m.Addr()); err != nil {
			tb.Fatal(err)
		}
	})
	if o.failed != "" {
		t.Fatal(o.failed)
	}
	if !m.proc.ended() {
		t.Error("the server has not ended")
	}
	if _, err := os.Stat(m.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory: %v", err)
	}
}

// A server can be frozen, killed and restarted.
func TestMongo_KillFreezeRestart(t *testing.T) {
	m := StartMongo(t)
	must(t, m.Freeze())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := hello(ctx, m.Addr()); err == nil {
		t.Error("a frozen server answered")
	}
	must(t, m.Thaw())
	must(t, hello(testContext(t), m.Addr()))
	must(t, m.Kill())
	if err := hello(testContext(t), m.Addr()); err == nil {
		t.Error("a killed server answered")
	}
	if err := m.Kill(); !errors.Is(err, errNotRunning) {
		t.Errorf("a second Kill: %v", err)
	}
	must(t, m.Restart(testContext(t)))
	must(t, hello(testContext(t), m.Addr()))
}

// Tests with MongoDB are skipped under -short.
func TestMongo_Short(t *testing.T) {
	f := flag.Lookup("test.short")
	was := f.Value.String()
	must(t, f.Value.Set("true"))
	defer func() { must(t, f.Value.Set(was)) }()
	for name, call := range map[string]func(testing.TB){
		"StartMongo":  func(tb testing.TB) { StartMongo(tb) },
		"SharedMongo": func(tb testing.TB) { SharedMongo(tb) },
	} {
		if o := observe(call); o.skipped == "" || o.failed != "" {
			t.Errorf("%s: skipped %q, failed %q", name, o.skipped, o.failed)
		}
	}
}

// The shared server starts once.
func TestMongo_SharedOnce(t *testing.T) {
	t.Setenv(mongoVariable, "")
	a, b := SharedMongo(t), SharedMongo(t)
	if a != b || !a.Owned() {
		t.Errorf("two servers: %s and %s", a.URI(), b.URI())
	}
	must(t, hello(testContext(t), a.Addr()))
}

// A server of the environment variable is used and never stopped.
func TestMongo_Foreign(t *testing.T) {
	m := &Mongo{uri: "mongodb://elsewhere/"}
	if m.lifecycle() != nil || m.Owned() {
		t.Error("it is reported as owned")
	}
	for name, err := range map[string]error{"Kill": m.Kill(), "Freeze": m.Freeze(), "Restart": m.Restart(t.Context())} {
		if !errors.Is(err, ErrNotOwned) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
