package audit_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a log whose lines are also in a buffer.
func open(t testing.TB, file string) (*audit.Log, *bytes.Buffer) {
	t.Helper()
	var said bytes.Buffer
	log, err := audit.New(file, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return log, &said
}

// write writes a record that must be in the file.
func write(t testing.TB, log *audit.Log, r audit.Record) {
	t.Helper()
	log.Write(t.Context(), r)
	if err := log.Broken(); err != nil {
		t.Fatal(err)
	}
}

// lines are those of a file. What is no JSON object is an empty record.
func lines(t testing.TB, file string) []audit.Record {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []audit.Record
	scanner := bufio.NewScanner(bytes.NewReader(text))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var r audit.Record
		_ = json.Unmarshal(scanner.Bytes(), &r)
		all = append(all, r)
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		t.Errorf("the last line has no end")
	}
	return all
}

// change is a record with everything in it.
func change(n int64) audit.Record {
	return audit.Record{
		Who: "token:ci", From: "192.0.2.1", Operation: "put-rule-set", RuleSet: "api-limits", Rule: "per-user", Outcome: audit.Changed,
		Status: 200, Detail: "raised", Before: n, After: n + 1, Changes: json.RawMessage(`[{"rule":"per-user"}]`),
	}
}

// A record is in the file and the log.
func TestLog_Write(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	var said bytes.Buffer
	log, err := audit.New(file, slog.New(slog.NewJSONHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for n := range int64(2) {
		write(t, log, change(n))
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	var fields map[string]any
	if err := json.Unmarshal([]byte(first), &fields); err != nil {
		t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(fields["time"]))
	if err != nil || at.Before(begin.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) || at.Location() != time.UTC {
		t.Errorf("time %v, %v", fields["time"], err)
	}
	delete(fields, "time")
	const want = `map[after:1 changes:[map[rule:per-user]] detail:raised from:192.0.2.1 operation:put-rule-set outcome:changed rule:per-user ruleSet:api-limits seq:1 status:200 who:token:ci]`
	if got := fmt.Sprint(fields); got != want {
		t.Errorf("the file has\n%s\nwant\n%s", got, want)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	logged := strings.Split(strings.TrimSpace(said.String()), "\n")
	if len(logged) != 2 || !strings.Contains(logged[1], `"msg":"audit"`) {
		t.Fatalf("logged\n%s", said.String())
	}
	for _, part := range []string{`"level":"INFO"`, `"who":"token:ci"`, `"before":1,"after":2`, `"changes":[{"rule":"per-user"}]`, `"seq":2`, `"from":"192.0.2.1"`, `"ruleSet":"api-limits"`} {
		if !strings.Contains(logged[1], part) {
			t.Errorf("the log lacks %s: %s", part, logged[1])
		}
	}
}

// Refusals are logged as warnings.
func TestLog_Levels(t *testing.T) {
	log, said := open(t, "")
	for _, outcome := range []audit.Outcome{audit.Changed, audit.Unchanged, audit.Refused, audit.Failed} {
		write(t, log, audit.Record{Outcome: outcome})
	}
	if text := said.String(); strings.Count(text, "level=INFO") != 2 || strings.Count(text, "level=WARN") != 2 {
		t.Errorf("logged\n%s", text)
	}
}

// Everything in a record is bounded.
func TestRecord_Bounds(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	log, _ := open(t, file)
	long := strings.Repeat("é", 1_000) + "\n\x1b[31m\x00\xff"
	huge, _ := json.Marshal(strings.Repeat("x", 70_000))
	for name, changes := range map[string]string{"huge": string(huge), "broken": "{\n\"who\": \"me\"}\n{", "pretty": "{\n  \"a\": 1\n}"} {
		before := len(lines(t, file))
		write(t, log, audit.Record{
			Who: long, From: long, Operation: long, RuleSet: long, Rule: long, Outcome: audit.Outcome(long), Detail: "a\nb\t\x1b\u009b\u202e\xff", Changes: json.RawMessage(changes),
		})
		all := lines(t, file)
		r := all[len(all)-1]
		if len(all) != before+1 || r.Detail != "a\nb\t\uFFFD\uFFFD\uFFFD\uFFFD" {
			t.Errorf("%s: %d lines more, %q", name, len(all)-before, r.Detail)
		}
		for _, text := range []string{r.Who, r.From, r.Operation, r.RuleSet, r.Rule, string(r.Outcome)} {
			if utf8.RuneCountInString(text) > 1_001 || !strings.HasSuffix(text, "é…") {
				t.Errorf("%s: a text of %d bytes ends in %q", name, len(text), text[len(text)-8:])
			}
		}
		want := map[string]string{"huge": `{"omittedBytes":70002}`, "broken": `{"unreadableBytes":16}`, "pretty": `{"a":1}`}[name]
		if string(r.Changes) != want {
			t.Errorf("%s: changes %.100s, want %s", name, r.Changes, want)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil || bytes.ContainsAny(text, "\x1b\x00\u009b\u202e") {
		t.Errorf("control characters are in the file (%v)", err)
	}
}

// Texts are cut to a number of characters, whatever their encoding, and changes
// to the size of their JSON.
func TestRecord_LongTexts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	log, _ := open(t, file)
	last := func() audit.Record {
		all := lines(t, file)
		return all[len(all)-1]
	}
	for _, part := range []string{"\x01", "\n", "\t", `"`, "<", "\xff", "\u202e", "é", "😀", "x", "x<é\x00"} {
		long := strings.Repeat(part, 2_000)
		changes := json.RawMessage(`"` + strings.Repeat("<", 60_000) + `"`)
		write(t, log, audit.Record{Detail: long, Comment: long, Changes: changes})
		r := last()
		for _, text := range []string{r.Detail, r.Comment} {
			if n := utf8.RuneCountInString(text); n != 1_001 || !strings.HasSuffix(text, "…") {
				t.Errorf("a text of %q has %d characters", part, n)
			}
		}
		if string(r.Changes) != `{"omittedBytes":60002}` {
			t.Errorf("%d bytes of changes", len(r.Changes))
		}
	}
	whole := strings.Repeat("x", 1_000)
	if write(t, log, audit.Record{Detail: whole}); last().Detail != whole {
		t.Error("a text that fits was cut")
	}
}

// Records are logged whatever the level of the log.
func TestLog_AnyLevel(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		for _, level := range []string{"debug", "info", "warn", "error"} {
			var said bytes.Buffer
			logger, err := telemetry.NewLogger(&said, format, level)
			if err != nil {
				t.Fatal(err)
			}
			log, err := audit.New("", logger.With("server", "a"))
			if err != nil {
				t.Fatal(err)
			}
			write(t, log, change(1))
			if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "put-rule-set") || !strings.Contains(text, "server") {
				t.Errorf("as %s at level %s it logs %q", format, level, text)
			}
		}
	}
}

// Concurrent writers write whole lines.
func TestLog_Concurrent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	one, _ := open(t, file)
	two, _ := open(t, file) // as another server would
	logs := []*audit.Log{one, two}
	const each = 200
	var all sync.WaitGroup
	for writer := range 6 {
		all.Go(func() {
			for n := range int64(each) {
				r := change(n)
				r.Detail = strings.Repeat(fmt.Sprint(writer), 500)
				logs[writer%2].Write(t.Context(), r)
				if err := logs[writer%2].Broken(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	found := lines(t, file)
	for _, r := range found {
		if r.Who == "" || r.Detail != strings.Repeat(r.Detail[:1], 500) {
			t.Fatalf("a line is garbled: %+v", r)
		}
	}
	if len(found) != 6*each {
		t.Errorf("%d lines", len(found))
	}
}
