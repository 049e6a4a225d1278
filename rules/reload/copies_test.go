package reload_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules/reload"
)

const copyName = "set.rules.json"

// withCopy runs a reloader once, so that the rule set has a copy.
func withCopy(t *testing.T, source *stubSource) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "copies")
	put(t, source, "set", 7)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Copies: folder, Interval: never})
	if capacity(t, r, "set") != 7 {
		t.Fatal("the rule set was not loaded")
	}
	return folder
}

// A gateway starts from its copy while the source is unavailable.
func TestCopies_SourceUnavailable(t *testing.T) {
	source := newStubSource()
	folder := withCopy(t, source)
	source.failWith(away)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Copies: folder, Interval: 20 * time.Millisecond})
	if capacity(t, r, "set") != 7 {
		t.Fatalf("it does not use its copy: %+v", r.Status())
	}
	s := status(t, r, "set")
	if s.Source != reload.FromCopy || s.Err == nil || s.Revision != 1 || !s.CheckedAt.IsZero() {
		t.Errorf("status %+v", s)
	}
	source.failWith(nil)
	until(t, "the source confirms it", func() bool {
		s := status(t, r, "set")
		return s.Source == reload.FromSource && s.Err == nil && !s.CheckedAt.IsZero()
	})
	if err := r.Reload(t.Context()); err != nil {
		t.Error(err)
	}
	if loads := source.loads.Load(); loads != 2 {
		t.Errorf("a rule set was loaded %d times, want once for its copy and once after it", loads)
	}
}

// With StartWithoutRules a gateway starts without source and copy, and the engine's
// missing-rule behavior applies.
func TestStart_NoSourceNoCopy(t *testing.T) {
	source := newStubSource()
	put(t, source, "set", 7)
	source.failWith(away)
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Copies: t.TempDir(), Interval: 20 * time.Millisecond, StartWithoutRules: true})
	if s := status(t, r, "set"); s.Source != reload.FromNowhere || s.Err == nil {
		t.Errorf("the status does not report the missing rule set: %+v", s)
	}
	for _, allow := range []bool{true, false} {
		engine, err := fluxgate.New(newStore(t), r, fluxgate.WithRuleSet("set"), fluxgate.WithMissingRule(allow))
		if err != nil {
			t.Fatal(err)
		}
		if d, err := engine.Check(t.Context(), &fluxgate.Request{}); err != nil || d.Allowed != allow || d.Reason != fluxgate.ReasonNoRuleSet {
			t.Errorf("missing rules allow %t: %+v, %v", allow, d, err)
		}
	}
	source.failWith(nil)
	until(t, "the rule set is there", func() bool { return capacity(t, r, "set") == 7 })
}

// Copies can be read by their owner only, and are complete.
func TestCopies_Files(t *testing.T) {
	source := newStubSource()
	folder := withCopy(t, source)
	for name, mode := range map[string]os.FileMode{".": os.ModeDir | 0o700, copyName: 0o600} {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil || info.Mode() != mode {
			t.Errorf("%s: mode %v, %v", name, info.Mode(), err)
		}
	}
	r := start(t, source, reload.Config{RuleSets: []string{"set"}, Copies: folder, Interval: never})
	// A file that a killed process left is replaced.
	if err := os.WriteFile(filepath.Join(folder, "."+copyName+".1"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for c := int64(8); c < 30; c++ {
		put(t, source, "set", c)
		if err := r.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	source.failWith(away)
	again := start(t, source, reload.Config{RuleSets: []string{"set"}, Copies: folder, Interval: never})
	if got := capacity(t, again, "set"); got != 29 {
		t.Errorf("the copy is of capacity %d, not the last", got)
	}
}

// A damaged copy is not used, whichever part of the file is damaged.
func TestCopies_Damaged(t *testing.T) {
	source := newStubSource()
	folder := withCopy(t, source)
	file := filepath.Join(folder, copyName)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	source.failWith(away)
	damaged := map[string][]byte{
		"empty":        nil,
		"half":         whole[:len(whole)/2],
		"other limit":  bytes.Replace(whole, []byte(`"capacity":7`), []byte(`"capacity":9`), 1),
		"other set":    bytes.Replace(whole, []byte(`"ruleSetId":"set","revision"`), []byte(`"ruleSetId":"sat","revision"`), 1),
		"not JSON":     []byte("rules: none"),
		"too long":     bytes.Repeat([]byte(" "), 25<<20),
		"no document":  []byte(`{"ruleSetId":"set","revision":1,"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}`),
		"another type": []byte(`["set"]`),
	}
	for name, text := range damaged {
		t.Run(name, func(t *testing.T) {
			if bytes.Equal(text, whole) {
				t.Fatal("nothing is damaged")
			}
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			r := start(t, source, reload.Config{RuleSets: []string{"set"}, Copies: folder, Interval: never, StartWithoutRules: true})
			if got := capacity(t, r, "set"); got != 0 {
				t.Errorf("a damaged copy of capacity %d decides", got)
			}
		})
	}
}

// A copy may be of another source that numbers its rules alike. What the source has replaces it,
// also if the source answers only after the start.
func TestCopies_OtherSource(t *testing.T) {
	folder := withCopy(t, newStubSource())
	other := newStubSource()
	put(t, other, "set", 9)
	other.failWith(away)
	r := start(t, other, reload.Config{RuleSets: []string{"set"}, Copies: folder, Interval: 20 * time.Millisecond})
	if s := status(t, r, "set"); s.Source != reload.FromCopy || capacity(t, r, "set") != 7 {
		t.Fatalf("it does not use the copy: %+v", s)
	}
	other.failWith(nil)
	until(t, "the source confirms it", func() bool {
		s := status(t, r, "set")
		return s.Source == reload.FromSource && s.Err == nil
	})
	if s := status(t, r, "set"); capacity(t, r, "set") != 9 || s.Revision != 1 {
		t.Errorf("in effect is a capacity of %d, the source has 9: %+v", capacity(t, r, "set"), s)
	}
}

// Start fails if the folder cannot be created.
func TestCopies_Folder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := reload.Start(t.Context(), newStubSource(), reload.Config{Copies: file}); err == nil {
		_ = r.Close()
		t.Error("it started")
	}
}

// Copies are in effect before the source is asked, so that a source that hangs
// delays a start by FirstWait at most.
func TestCopies_SourceHangs(t *testing.T) {
	for _, withoutRules := range []bool{false, true} {
		source := newStubSource()
		folder := withCopy(t, source)
		source.failWith(hang)
		begun := time.Now()
		r := start(t, source, reload.Config{
			RuleSets: []string{"set"}, Copies: folder, Interval: never, FirstWait: 10 * time.Millisecond, Timeout: time.Minute, StartWithoutRules: withoutRules,
		})
		if capacity(t, r, "set") != 7 || time.Since(begun) > 10*time.Second {
			t.Errorf("after %v: %+v", time.Since(begun), r.Status())
		}
		if s := status(t, r, "set"); s.Source != reload.FromCopy || !s.CheckedAt.IsZero() {
			t.Errorf("status %+v", s)
		}
	}
}

// A source that was created anew counts revisions from 1 again. At the start its
// rules are loaded, even if the copy has their revision, and it is no change that
// resets buckets.
func TestCopies_SameRevision(t *testing.T) {
	folder := withCopy(t, newStubSource())
	anew := newStubSource()
	put(t, anew, "set", 9)
	store := newStore(t)
	r := start(t, anew, reload.Config{RuleSets: []string{"set"}, Copies: folder, Interval: never, ResetBuckets: store})
	if s := status(t, r, "set"); capacity(t, r, "set") != 9 || s.Revision != 1 || s.Source != reload.FromSource {
		t.Errorf("capacity %d, status %+v", capacity(t, r, "set"), s)
	}
	if s := r.Stats(); s.Swaps != 0 || s.Resets != 0 {
		t.Errorf("%+v", s)
	}
}
