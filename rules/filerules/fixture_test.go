package filerules_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// ruleSet returns a file with one rule set of one rule.
func ruleSet(id string, capacity int) string {
	return fmt.Sprintf("id: %s\nrules:\n  - id: %[1]s-rule\n    bands:\n      - {capacity: %d, refill: 1m}\n", id, capacity)
}

// capacityOf returns the capacity that ruleSet was called with.
func capacityOf(set *rules.Set) int {
	for r := range set.Rules() {
		return int(r.Bands[0].Capacity)
	}
	return 0
}

// write writes a file in place.
func write(t testing.TB, content string, path ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(path...), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace writes another file and renames it over this one.
func replace(t testing.TB, content string, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	hidden := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".new")
	write(t, content, hidden)
	do(t, os.Rename(hidden, name))
}

func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a source with a short Settle. Tests that write in place while others
// read set their own.
func open(t testing.TB, path string, config filerules.Config) *filerules.Source {
	t.Helper()
	if config.Settle == 0 {
		config.Settle = time.Millisecond
	}
	source, err := filerules.Open(path, config)
	do(t, err)
	return source
}

// load returns the current version of a rule set.
func load(t testing.TB, source rules.Source, id string) *rules.Version {
	t.Helper()
	version, err := source.Load(t.Context(), id)
	do(t, err)
	return version
}

func wantCapacity(t testing.TB, source rules.Source, id string, want int) {
	t.Helper()
	if got := capacityOf(load(t, source, id).RuleSet); got != want {
		t.Errorf("rule set %s has the capacity %d, want %d", id, got, want)
	}
}

func head(t testing.TB, source rules.Source, id string) rules.Head {
	t.Helper()
	heads, err := source.Revisions(t.Context(), []string{id})
	do(t, err)
	return heads[id]
}

// wantBroken checks that both methods return an error other than ErrNotFound.
func wantBroken(t testing.TB, source rules.Source, id string) error {
	t.Helper()
	version, err := source.Load(t.Context(), id)
	if err == nil || errors.Is(err, rules.ErrNotFound) {
		t.Errorf("Load gives %v, %v, want an error other than ErrNotFound", version, err)
	}
	if heads, err := source.Revisions(t.Context(), []string{id}); err == nil {
		t.Errorf("Revisions gives %v, want an error", heads)
	}
	return err
}

// watching starts Watch and returns the ids it reports.
func watching(t testing.TB, source rules.Watcher) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	reported, ended := make(chan string, 1_000), make(chan error, 1)
	go func() { ended <- source.Watch(ctx, func(id string) { reported <- id }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch ended with %v, want the error of its context", err)
		}
	})
	wait(t, reported) // after the first call no change is missed
	return reported
}

const patience = 30 * time.Second

func wait(t testing.TB, reported <-chan string) string {
	t.Helper()
	select {
	case id := <-reported:
		return id
	case <-time.After(patience):
		t.Fatal("the watcher reported nothing")
		return ""
	}
}

// await waits until a condition holds. It checks after each report of the watcher:
// a change may be reported in steps, because a file written in place is empty
// first.
func await(t testing.TB, reported <-chan string, holds func() bool) {
	t.Helper()
	for {
		wait(t, reported)
		if holds() {
			return
		}
	}
}

// awaitCapacity waits until rule set a is reported and has a capacity.
func awaitCapacity(t testing.TB, source rules.Source, reported <-chan string, want int) {
	t.Helper()
	await(t, reported, func() bool {
		version, err := source.Load(t.Context(), "a")
		return err == nil && capacityOf(version.RuleSet) == want
	})
}
