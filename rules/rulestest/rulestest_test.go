package rulestest_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules/rulestest"
)

// A correct editor passes every check.
func TestChecks_CorrectEditor(t *testing.T) {
	for _, c := range rulestest.Checks() {
		t.Run(c.Name, func(t *testing.T) {
			s := openEditor("")
			s.Patience = 0
			if r := record(t, func(t testing.TB) { c.Run(t, s) }); r.failed || r.skipped {
				t.Errorf("skipped %t, failed %t: %s", r.skipped, r.failed, r.said)
			}
		})
	}
	for _, c := range rulestest.OverrideChecks() {
		t.Run(c.Name, func(t *testing.T) {
			if r := record(t, func(t testing.TB) { c.Run(t, openOverrides("")) }); r.failed || r.skipped {
				t.Errorf("skipped %t, failed %t: %s", r.skipped, r.failed, r.said)
			}
		})
	}
}

// A source that cannot be written passes the checks of reading.
func TestChecks_ReadOnlySource(t *testing.T) {
	passed := 0
	for _, c := range rulestest.Checks() {
		r := record(t, func(t testing.TB) { c.Run(t, openDocuments("")) })
		if r.failed {
			t.Errorf("%s: %s", c.Name, r.said)
		}
		if !r.skipped {
			passed++
		}
	}
	if passed != 9 {
		t.Errorf("passes %d checks, 9 are about reading, malformed content and rule ids", passed)
	}
}

// Every fault fails a check.
func TestChecks_FaultyEditor(t *testing.T) {
	noticing := map[string]bool{}
	for _, faulty := range []struct {
		kind   string
		open   func(fault string) rulestest.Subject
		faults map[string]string
	}{
		{"an editor", openEditor, editorFaults},
		{"a source", openDocuments, documentFaults},
		{"a source of overrides", openOverrides, overrideFaults},
	} {
		for fault, name := range faulty.faults {
			noticing[name] = true
			t.Run(faulty.kind+" that "+fault, func(t *testing.T) {
				c := find(t, name)
				r := record(t, func(t testing.TB) { c.Run(t, faulty.open(fault)) })
				if !r.failed {
					t.Fatalf("passes the check %q", name)
				}
				t.Logf("%s: %.300s", name, r.said)
			})
		}
	}
	for _, c := range slices.Concat(rulestest.Checks(), rulestest.OverrideChecks()) {
		if !noticing[c.Name] {
			t.Errorf("no fault tests the check %q", c.Name)
		}
	}
}

// An invalid subject is rejected.
func TestChecks_InvalidSubject(t *testing.T) {
	editor, source := openEditor(""), openDocuments("")
	for name, s := range map[string]rulestest.Subject{
		"nothing":                         {},
		"a source that cannot be written": {Source: source.Source},
		"a source without Remove":         {Source: source.Source, Write: source.Write},
		"an editor with a short history":  {Editor: editor.Editor, History: 3},
		"an editor of few bytes":          {Editor: editor.Editor, HistoryBytes: 3},
	} {
		c := find(t, "reading an unknown id returns no revision and ErrNotFound")
		if r := record(t, func(t testing.TB) { c.Run(t, s) }); !r.failed {
			t.Errorf("%s is accepted", name)
		}
	}
	if r := record(t, func(t testing.TB) { rulestest.OverrideChecks()[0].Run(t, editor) }); !r.failed {
		t.Error("a source without overrides is accepted")
	}
}

func find(t *testing.T, name string) rulestest.Check {
	t.Helper()
	for _, c := range slices.Concat(rulestest.Checks(), rulestest.OverrideChecks()) {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no check is called %q", name)
	return rulestest.Check{}
}

// recorder is a testing.TB that records failures.
type recorder struct {
	testing.TB
	mu              sync.Mutex
	failed, skipped bool
	said            string
}

func record(t *testing.T, run func(testing.TB)) *recorder {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(r)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Minute): // with the race detector some take ten seconds of an idle machine
		t.Fatal("a check does not end")
	}
	return r
}

func (r *recorder) fail(said string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failed {
		r.failed, r.said = true, strings.TrimSpace(said)
	}
}

func (r *recorder) Errorf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }
func (r *recorder) Error(args ...any)                 { r.fail(fmt.Sprintln(args...)) }
func (r *recorder) Failed() bool                      { r.mu.Lock(); defer r.mu.Unlock(); return r.failed }
func (r *recorder) FailNow()                          { r.fail("failed"); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
func (r *recorder) Skip(...any)                       { r.skipped = true; runtime.Goexit() }
func (r *recorder) Helper()                           {}
