package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
)

// call runs a command line without a terminal.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return callWith(t, strings.NewReader(""), args...)
}

func callWith(t *testing.T, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), "dev", args, stdin, &out, &errs)
	return code, out.String(), errs.String()
}

// terminal is an input that is a terminal. Before the answer is typed, meanwhile
// runs.
type terminal struct {
	meanwhile func()
	answer    string

	once sync.Once
	rest io.Reader
}

func (i *terminal) IsTerminal() bool { return true }

func (i *terminal) Read(b []byte) (int, error) {
	i.once.Do(func() {
		if i.meanwhile != nil {
			i.meanwhile()
		}
		i.rest = strings.NewReader(i.answer)
	})
	return i.rest.Read(b)
}

var prefixes atomic.Int64

// patient gives Redis time on a busy machine.
const patient = "redis.timeout=5s"

// inRedis are the settings of rules and buckets in Redis, for one test alone.
func inRedis(t *testing.T) []string {
	t.Helper()
	name := fmt.Sprintf("cli-%d-%d", os.Getpid(), prefixes.Add(1))
	return []string{
		"redis.uri=" + testenv.SharedStandalone(t).URI(), "redis.prefix=" + name, "reload.channel=" + name, "rules.source=redis", "mongo.enabled=false",
		"reload.polling-interval=100ms", "reload.jitter=0s", patient,
	}
}

// serveWith runs a server with these settings and returns where its listeners
// are.
func serveWith(t *testing.T, settings ...string) (adminAddr, httpAddr string) {
	t.Helper()
	c, err := config.Load(config.Sources{Set: append([]string{"server.http=127.0.0.1:0", "server.admin=127.0.0.1:0", "server.drain.delay=0s", patient}, settings...)})
	if err != nil {
		t.Fatal(err)
	}
	app, err := server.New(t.Context(), c, server.Options{Version: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return app.Addr("admin"), app.Addr("http")
}

// testTarget is a target of commands.
type testTarget struct {
	flags  []string
	author string // of its changes
	place  string // in questions
}

// testTargets are all kinds of targets: a server, and the sources directly.
func testTargets(t *testing.T) map[string]testTarget {
	t.Helper()
	address, _ := serveWith(t, inRedis(t)...)
	name := fmt.Sprintf("cli-%d-%d", os.Getpid(), prefixes.Add(1))
	mongo := []string{"mongo.uri=" + testenv.SharedMongo(t).URI(), "mongo.database=" + name, "rules.source=mongo"}
	return map[string]testTarget{
		"server": {[]string{"--server", "http://" + address}, "anonymous", "at http://" + address},
		"redis":  direct(t, inRedis(t)),
		"mongo":  direct(t, append(mongo, "redis.uri="+testenv.SharedStandalone(t).URI(), "redis.prefix="+name, "reload.channel="+name, patient)),
	}
}

func direct(t *testing.T, settings []string) testTarget {
	t.Helper()
	flags := []string{"--direct"}
	for _, s := range settings {
		flags = append(flags, "--set", s)
	}
	place := "directly in redis"
	if slices.Contains(settings, "rules.source=mongo") {
		place = "directly in mongo"
	}
	return testTarget{flags, new(target).signature(), place}
}

// line is a command and its result.
type line struct {
	command string
	stdin   io.Reader
	code    int
	stdout  string
	stderr  string // a part of it
}

// runLines runs the commands, with WHO for the author of changes, PLACE for the
// target and FOLDER for a folder.
func (p testTarget) runLines(t *testing.T, folder string, lines []line) {
	t.Helper()
	for _, l := range lines {
		args := strings.Fields(strings.ReplaceAll(l.command, "FOLDER", folder))
		if !strings.Contains(l.command, "validate") {
			args = append(args, p.flags...)
		}
		if l.stdin == nil {
			l.stdin = strings.NewReader("")
		}
		l.stderr = strings.ReplaceAll(l.stderr, "PLACE", p.place)
		code, out, errs := callWith(t, l.stdin, args...)
		if p.author != "" {
			out = strings.ReplaceAll(out, p.author, "WHO")
		}
		if want := tidy(l.stdout); code != l.code || tidy(out) != want || !strings.Contains(errs, l.stderr) || l.stderr == "" && errs != "" {
			t.Fatalf("fluxgate %s: exit code %d, not %d\n%s\n%s\nwanted\n%s\n%s", l.command, code, l.code, tidy(out), errs, want, l.stderr)
		}
	}
}

// What differs between two runs.
var (
	moments  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	keys     = regexp.MustCompile(`\b[0-9a-f]{48}\b`)
	instants = regexp.MustCompile(`("?(timeMs|fullAfterMs|resetAfterMs)"?): [0-9.]+`)
)

func tidy(s string) string {
	s = instants.ReplaceAllString(keys.ReplaceAllString(moments.ReplaceAllString(s, "MOMENT"), "KEY"), "$1: 0")
	lines := strings.Split(strings.TrimSpace(times.ReplaceAllString(s, "TIME")), "\n")
	for i, l := range lines {
		indent := l[:len(l)-len(strings.TrimLeft(l, " "))]
		lines[i] = indent + strings.TrimSpace(spaces.ReplaceAllString(l, " "))
	}
	return strings.Join(lines, "\n")
}

// write writes a file in a folder and returns its name.
func write(t *testing.T, folder, name, text string) string {
	t.Helper()
	file := filepath.Join(folder, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// golden compares a text with a file of testdata, which UPDATE_GOLDEN=1 writes.
func golden(t *testing.T, file, got string) {
	t.Helper()
	file = "testdata/" + file + ".golden"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || got != string(want) {
		t.Errorf("writes\n%s\nwant\n%s (%v)", got, want, err)
	}
}

// ruleSet is a document with one rule of this capacity.
func ruleSet(id string, capacity int) string {
	return fmt.Sprintf("id: %s\nrules:\n  - id: %s-rule\n    limitScope: USER_ID\n    bands: [{label: hourly, capacity: %d, refill: 1h}]\n", id, id, capacity)
}

// otherOperator uses the same server through the API.
type otherOperator struct{ *admin.Client }

func newOtherOperator(t *testing.T, address string) otherOperator {
	t.Helper()
	client, err := admin.NewClient("http://"+address, admin.ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return otherOperator{client}
}

// sets makes a rule set of one rule.
func (c otherOperator) sets(t *testing.T, id string, capacity int64, comment string) int64 {
	t.Helper()
	heads, err := c.Revisions(t.Context(), []string{id})
	if err != nil {
		t.Fatal(err)
	}
	set, err := rules.NewSet(id, rules.Rule{
		ID: id + "-rule", Scope: rules.ScopeUser, Bands: []rules.Band{{Label: "hourly", Capacity: capacity, Refill: 3600e9}},
	})
	if err != nil {
		t.Fatal(err)
	}
	revision, err := c.Put(t.Context(), set, rules.Change{Base: heads[id].Revision, Author: "colleague", Comment: comment})
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// capacity is that of a rule set of one rule.
func (c otherOperator) capacity(t *testing.T, id string) int64 {
	t.Helper()
	v, err := c.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for r := range v.RuleSet.Rules() {
		return r.Bands[0].Capacity
	}
	t.Fatalf("%s has no rules", id)
	return 0
}

// indent makes a document an element of a list.
func indent(document string) string {
	return "  - " + strings.ReplaceAll(strings.TrimSpace(document), "\n", "\n    ") + "\n"
}
