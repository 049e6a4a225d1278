package adminapi_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/audit"
)

// stall opens a request as a writer whose body never ends.
func (r *rig) stall(t *testing.T, method, path, headers string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.Listener.Addr().String())
	do(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%sContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{",
		method, path, tokenWrite, headers)
	do(t, err)
	return conn
}

// A caller whose requests stall is refused with 503 when its slots are used up,
// and the refused change is in the audit. Other callers are not affected.
func TestSlots_Full(t *testing.T) {
	t.Parallel() // it mostly waits
	r := start(t, func(s *settings) { s.bodyTimeout = time.Minute })
	for range 2 {
		r.stall(t, http.MethodPost, "/v1/validate", "")
	}
	full := func() answer {
		return r.send(t, http.MethodPut, mine, setOf("mine", 5), "If-None-Match", "*")
	}
	var got answer
	testenv.Eventually(t, "the slots are used up", func() bool { got = full(); return got.status == http.StatusServiceUnavailable })
	if p := got.problem(t); p.Kind != admin.KindLimited || got.header.Get("Retry-After") != "1" || !strings.Contains(p.Detail, "try again") {
		t.Errorf("answers %+v with Retry-After %q", p, got.header.Get("Retry-After"))
	}
	if last := r.lastRecord(t); last.Operation != "put-rule-set" || last.Status != http.StatusServiceUnavailable || last.Outcome != audit.Failed {
		t.Errorf("the audit says %+v", last)
	}
	r.send(t, http.MethodPost, "/v1/validate", setOf("mine", 5), "Authorization", "Bearer "+tokenRead).want(t, http.StatusOK)
}

// A body that does not end in time is refused, and its slot is free again.
func TestSlots_BodyTimeout(t *testing.T) {
	r := start(t, func(s *settings) { s.bodyTimeout = 50 * time.Millisecond })
	for range 10 {
		conn := r.stall(t, http.MethodPut, mine, "If-None-Match: *\r\n")
		do(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(line, " 408 ") {
			t.Fatalf("answers %q (%v)", line, err)
		}
	}
	r.create(t, mine, setOf("mine", 5))
}

// The client waits for a slot and continues.
func TestSlots_ClientWaits(t *testing.T) {
	t.Parallel() // it mostly waits
	r := start(t, func(s *settings) { s.bodyTimeout = 6 * time.Second })
	for range 2 {
		r.stall(t, http.MethodPost, "/v1/validate", "")
	}
	client, err := admin.NewClient(r.URL, admin.ClientConfig{Token: admin.Secret(tokenWrite)})
	do(t, err)
	defer client.Close()
	if _, err := client.List(t.Context(), "", 10); err != nil {
		t.Error(err)
	}
}
