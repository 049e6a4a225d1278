package envoyrules_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/envoyrules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// domain returns a file with one limit.
func domain(name string, requests int) string {
	return "domain: " + name + "\ndescriptors:\n  - key: k\n    rate_limit: {unit: day, requests_per_unit: " + itoa(requests) + "}\n"
}

// write replaces a file.
func write(t testing.TB, content string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	if err := errors.Join(os.WriteFile(name+".new", []byte(content), 0o600), os.Rename(name+".new", name)); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, path string, log *slog.Logger) *filerules.Source {
	t.Helper()
	source, err := envoyrules.Open(path, filerules.Config{Settle: time.Millisecond}, log)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func capacity(t testing.TB, source rules.Source, id string) int64 {
	t.Helper()
	version, err := source.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for r := range version.RuleSet.Rules() {
		return r.Bands[0].Capacity
	}
	return 0
}

// A folder is watched: a change is reported and read, and a broken file changes nothing.
func TestSource_Changes(t *testing.T) {
	dir := t.TempDir()
	write(t, domain("a", 1), dir, "a.yaml")
	write(t, domain("default/b", 1), dir, "b.yaml")
	source := open(t, dir, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	reported, ended := make(chan string, 100), make(chan error, 1)
	go func() { ended <- source.Watch(ctx, func(id string) { reported <- id }) }()
	defer func() { cancel(); <-ended }()
	<-reported // from now on no change is missed

	b := envoyrules.RuleSetID("default/b")
	if ids, err := source.IDs(t.Context()); err != nil || len(ids) != 2 || ids[0] != "a" || ids[1] != b {
		t.Fatalf("rule sets %v, %v", ids, err)
	}
	write(t, domain("a", 2), dir, "a.yaml")
	for id := range reported {
		if id == "a" {
			break
		}
	}
	if got := capacity(t, source, "a"); got != 2 {
		t.Errorf("capacity %d, want 2", got)
	}
	write(t, "domain: a\ndescriptors:\n  - value: x\n", dir, "a.yaml")
	testenv.Eventually(t, "the broken file is an error of all rule sets", func() bool {
		_, err := source.Load(t.Context(), b)
		return err != nil && strings.Contains(err.Error(), filepath.Join(dir, "a.yaml")+":3:5: descriptors[0].key: is required")
	})
	write(t, domain("a", 3), dir, "a.yaml")
	testenv.Eventually(t, "the corrected file is read", func() bool {
		_, err := source.Load(t.Context(), "a")
		return err == nil && capacity(t, source, "a") == 3
	})
}

// Two files with the same domain are refused, as envoyproxy/ratelimit does unless it is
// to merge them.
func TestSource_SameDomain(t *testing.T) {
	dir := t.TempDir()
	write(t, domain("a", 1), dir, "a.yaml")
	write(t, domain("a", 1), dir, "b.yaml")
	_, err := open(t, dir, nil).Load(t.Context(), "a")
	if want := filepath.Join(dir, "b.yaml") + `: rule set "a" is in ` + filepath.Join(dir, "a.yaml") + " already"; err == nil || err.Error() != want {
		t.Errorf("Load says %v, want %s", err, want)
	}
}

// Notes are logged once for each version of a file.
func TestSource_Notes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	write(t, strings.Replace(domain("a", 1), "unit: day", "unit: week", 1), file)
	var log bytes.Buffer
	source := open(t, file, slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		capacity(t, source, "a")
	}
	if text := log.String(); strings.Count(text, "begins on Monday") != 1 || !strings.Contains(text, "line=4") {
		t.Errorf("the log says\n%s", text)
	}
}
