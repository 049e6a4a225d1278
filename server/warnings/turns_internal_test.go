package warnings

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// Where a rule set has no room left, a warning that has failed often makes room for another.
func TestDue_Room(t *testing.T) {
	refusing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(refusing.Close)
	c := New(Config{
		URL: refusing.URL, ShowKey: func(store.Key) string { return "" }, Count: func(string, string) {}, Logger: new(testenv.LogBuffer).Logger(),
	})
	t.Cleanup(c.client.CloseIdleConnections)
	var pending []store.Warning
	for n := range maxTries + 1 {
		pending = append(pending, store.Warning{Key: store.Key{RuleSet: "llm"}, Place: fmt.Sprint(n), At: time.Now().UnixMicro()})
	}
	if due := c.due(nil, pending); len(due) != maxTries {
		t.Fatalf("%d are due, want %d", len(due), maxTries)
	}
	often, once, last := c.tries["1"], c.tries["2"], fmt.Sprint(maxTries)
	often.failed = 8
	c.deliver(t.Context(), nil, once)
	if c.due(nil, pending); c.tries["2"] != once || c.tries[last] != nil {
		t.Error("a warning that has failed once made room")
	}
	c.deliver(t.Context(), nil, often)
	if c.tries["1"] != nil {
		t.Error("a warning that has failed often stays")
	}
	if c.due(nil, pending[2:]); c.tries[last] == nil {
		t.Error("there is no room for another")
	}
}

// Warnings that are delivered leave room for others of their rule set.
func TestDue_Delivered(t *testing.T) {
	c := New(Config{})
	var pending []store.Warning
	for n := range 2 * maxTries {
		pending = append(pending, store.Warning{Key: store.Key{RuleSet: "llm"}, Place: fmt.Sprint(n)})
	}
	for _, w := range c.due(nil, pending[:maxTries]) {
		w.delivered, w.next = true, time.Now().Add(lease)
	}
	if due := c.due(nil, pending); len(due) != maxTries {
		t.Errorf("%d are due, want %d others", len(due), maxTries)
	}
}
