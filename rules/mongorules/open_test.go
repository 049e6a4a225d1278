package mongorules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// No password is in an error or in the log.
func TestOpen_Password(t *testing.T) {
	const password = "hush-hush"
	for name, uri := range map[string]string{
		"a server that does not exist":         "mongodb://ann:hush-hush@127.0.0.1:1/db?connectTimeoutMS=100&serverSelectionTimeoutMS=100",
		"a host that does not exist":           "mongodb://ann:hush-hush@no-such-host.invalid/db",
		"no scheme":                            "ann:hush-hush@host/db",
		"another scheme":                       "redis://ann:hush-hush@host/db",
		"a password with an at sign":           "mongodb://ann:hush-hush@@host/db",
		"a password with a percent sign":       "mongodb://ann:hush-hush%zz@host/db",
		"a password with a slash":              "mongodb://ann:hush-hush/x@host/db",
		"an invalid option":                    "mongodb://ann:hush-hush@host/db?w=-5",
		"a key file that does not exist":       "mongodb://host/?tlsCertificateKeyFile=/none&tlsCertificateKeyFilePassword=hush-hush",
		"a service record that does not exist": "mongodb+srv://ann:hush-hush@no-such-host.invalid/db",
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			s, err := Open(ctx, uri, Config{Timeout: 200 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			said := fmt.Sprint(err)
			if err == nil {
				defer s.Close()
				_, err := s.Load(ctx, setID)
				_, err2 := s.Put(ctx, newSet(t, setID, rule("a", 1)), by(0))
				if err == nil || err2 == nil {
					t.Error("it was found")
				}
				said += fmt.Sprintf("%v %+v %v", err, err2, reconcile(ctx, s))
			}
			if strings.Contains(said+log.String(), password) || strings.Contains(said+log.String(), "hush") {
				t.Errorf("it says %s and logs %s", said, log.String())
			}
		})
	}
}

// A wrong password is not in an error.
func TestOpen_WrongPassword(t *testing.T) {
	host := strings.TrimPrefix(testenv.SharedMongo(t).URI(), "mongodb://")
	s, err := Open(t.Context(), "mongodb://ann:hush-hush@"+host[strings.LastIndex(host, "@")+1:], Config{})
	must(t, err)
	defer s.Close()
	_, err = s.Load(t.Context(), setID)
	if err == nil || errors.Is(err, rules.ErrNotFound) {
		t.Skip("this server does not check passwords")
	}
	if strings.Contains(err.Error(), "hush") {
		t.Errorf("it says %v", err)
	}
	t.Logf("it says %v", err)
}

// The database is the one in the URI.
func TestDatabaseOf_URI(t *testing.T) {
	for uri, want := range map[string]string{
		"mongodb://localhost:27017/fluxgate":    "fluxgate",
		"mongodb://localhost/rules?w=majority":  "rules",
		"mongodb://ann:a%2Fb@h1,h2/my%2Drules":  "my-rules",
		"mongodb://ann:secret@localhost":        "fluxgate",
		"mongodb://localhost/?authSource=admin": "fluxgate",
		"mongodb+srv://cluster.example.com/x":   "x",
	} {
		if got := databaseOf(uri); got != want {
			t.Errorf("%s: %s, want %s", uri, got, want)
		}
	}
}

// An invalid config is rejected.
func TestOpen_InvalidConfig(t *testing.T) {
	for name, config := range map[string]Config{
		"a collection with a dollar sign":    {Collection: "$x"},
		"a collection of the system":         {Collection: "system.users"},
		"a collection name that is too long": {Collection: strings.Repeat("x", 101)},
		"a negative history":                 {History: -1},
		"a negative timeout":                 {Timeout: -1},
		"a database with a dot":              {Database: "a.b"},
		"a database with a slash":            {Database: "a/b"},
	} {
		if s, err := Open(t.Context(), "mongodb://127.0.0.1:1/", config); err == nil {
			t.Errorf("%s is accepted", name)
			s.Close()
		}
	}
}

// A server that does not respond delays no call longer than the timeout, and loses
// nothing.
func TestTimeout_FrozenServer(t *testing.T) {
	server := testenv.StartMongo(t)
	f := newFixtureOn(t, server.URI(), Config{})
	f.put(threeRules()...)
	short := f.handle(Config{Timeout: 300 * time.Millisecond})
	must(t, server.Freeze())
	began := time.Now()
	for name, call := range map[string]func() error{
		"Load":      func() error { _, err := short.Load(t.Context(), setID); return err },
		"Revisions": func() error { _, err := short.Revisions(t.Context(), []string{setID}); return err },
		"Put":       func() error { _, err := short.Put(t.Context(), newSet(t, setID, rule("a", 2)), by(1)); return err },
		"Delete":    func() error { _, err := short.Delete(t.Context(), setID, by(1)); return err },
		"List":      func() error { _, err := short.List(t.Context(), "", 0); return err },
		"History":   func() error { _, err := short.History(t.Context(), setID, 0, 0); return err },
		"Version":   func() error { _, err := short.Version(t.Context(), setID, 1); return err },
		"Reconcile": func() error { return reconcile(t.Context(), short) },
		"New": func() error {
			s, err := New(t.Context(), f.db, Config{Timeout: 300 * time.Millisecond})
			if err == nil {
				_, err = s.Load(t.Context(), setID)
			}
			return err
		},
	} {
		if err := call(); err == nil || errors.Is(err, rules.ErrNotFound) || errors.As(err, new(*rules.ConflictError)) {
			t.Errorf("%s of a frozen server: %v", name, err)
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	must(t, server.Thaw())
	waitFor(t, func() error {
		_, err := short.Load(t.Context(), setID)
		return err
	})
	// A crash loses no acknowledged change.
	must(t, server.Kill())
	must(t, server.Restart(t.Context()))
	waitFor(t, func() error {
		_, err := f.Load(t.Context(), setID)
		return err
	})
	f.put(rule("a", 2))
	f.consistent()
}

// waitFor waits until a function succeeds.
func waitFor(t *testing.T, try func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Indexes are created once.
func TestIndexes_Once(t *testing.T) {
	f := newFixture(t, Config{})
	f.open(Config{})
	f.handle(Config{})
	names := func(c *mongo.Collection) []string {
		specs, err := c.Indexes().ListSpecifications(t.Context())
		must(t, err)
		var all []string
		for _, s := range specs {
			all = append(all, s.Name)
		}
		return all
	}
	if got := fmt.Sprint(names(f.current().docs)); got != "[_id_ ruleSetId_1__id_1 ruleSetId_1_enabled_1 ruleSetId_1_priority_-1]" {
		t.Errorf("the documents' indexes are %s", got)
	}
	if got := fmt.Sprint(names(f.current().history)); got != "[_id_ ruleSetId_1_revision_1]" {
		t.Errorf("the history's indexes are %s", got)
	}
}

// Indexes are created later if the server is unavailable at first.
func TestIndexes_ServerUnavailable(t *testing.T) {
	f := newFixture(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	away := true
	s := f.sameCollections()
	s.config.step = func(string) error {
		if away {
			return errKilled
		}
		return nil
	}
	s.makeIndexes(ctx)
	cancel()
	if s.indexed.Load() {
		t.Error("it assumes that they exist")
	}
	away = false
	_, err := s.Reconcile(t.Context(), setID)
	must(t, err)
	if !s.indexed.Load() {
		t.Error("it did not try again")
	}
}

// A poll without a change is one small read.
func TestRevisions_OneSmallRead(t *testing.T) {
	f := newFixture(t, Config{})
	var many []rules.Rule
	for i := range 200 {
		many = append(many, rule(fmt.Sprintf("rule-%d", i), 100))
	}
	f.put(many...)

	var mu sync.Mutex
	var commands, sent, received int
	client, err := mongo.Connect(options.Client().ApplyURI(f.uri).SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			mu.Lock()
			defer mu.Unlock()
			commands++
			sent += len(e.Command)
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			mu.Lock()
			defer mu.Unlock()
			received += len(e.Reply)
		},
	}))
	must(t, err)
	defer func() { must(t, client.Disconnect(context.Background())) }()
	s, err := New(t.Context(), client.Database(f.db.Name()), Config{})
	must(t, err)
	ids := []string{setID}
	for i := range 9 {
		ids = append(ids, fmt.Sprintf("unknown-%d", i))
	}
	for _, n := range []int{1, 10} {
		mu.Lock()
		commands, sent, received = 0, 0, 0
		mu.Unlock()
		heads, err := s.Revisions(t.Context(), ids[:n])
		must(t, err)
		if heads[setID].Current() != 1 || len(heads) != 1 {
			t.Errorf("the revisions are %v", heads)
		}
		mu.Lock()
		t.Logf("a poll of %d rule sets: %d command, %d bytes sent, %d bytes received", n, commands, sent, received)
		if commands != 1 || sent+received > 1_000 {
			t.Errorf("it takes %d commands and %d bytes", commands, sent+received)
		}
		mu.Unlock()
	}
	// The content of a rule set is far larger.
	raw, err := f.current().history.FindOne(t.Context(), bson.D{{Key: "ruleSetId", Value: setID}}).Raw()
	must(t, err)
	t.Logf("its content has %d bytes", len(raw))
}

// The history is bounded on the server too.
func TestHistory_Bounded(t *testing.T) {
	f := newFixture(t, Config{History: 3})
	for i := range 7 {
		f.put(rule("a", int64(i+1)))
	}
	n, err := f.current().history.CountDocuments(t.Context(), bson.D{})
	must(t, err)
	if n != 3 {
		t.Errorf("%d snapshots are kept", n)
	}
	f.consistent()
}
