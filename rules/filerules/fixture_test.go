package filerules_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// ruleSet is a file with one rule set of one rule.
func ruleSet(id string, capacity int) string {
	return fmt.Sprintf("id: %s\nrules:\n  - id: %[1]s-rule\n    bands:\n      - {capacity: %d, refill: 1m}\n", id, capacity)
}

// capacityOf reads what ruleSet was given.
func capacityOf(set *fluxgate.RuleSet) int {
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

// replace writes a file beside it and renames that.
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

// open opens a source that settles soon: the tests that write in place while
// someone reads say otherwise.
func open(t testing.TB, path string, config filerules.Config) *filerules.Source {
	t.Helper()
	if config.Settle == 0 {
		config.Settle = time.Millisecond
	}
	source, err := filerules.Open(path, config)
	do(t, err)
	return source
}

// load is what a rule set has now.
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

// wantBroken asks for an error from both methods that is not one of absence.
func wantBroken(t testing.TB, source rules.Source, id string) error {
	t.Helper()
	version, err := source.Load(t.Context(), id)
	if err == nil || errors.Is(err, rules.ErrNotFound) {
		t.Errorf("Load gives %v, %v, want an error that is not one of absence", version, err)
	}
	if heads, err := source.Revisions(t.Context(), []string{id}); err == nil {
		t.Errorf("Revisions gives %v, want an error", heads)
	}
	return err
}

// watching starts Watch and passes on what it tells.
func watching(t testing.TB, source rules.Watcher) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	told, ended := make(chan string, 1_000), make(chan error, 1)
	go func() { ended <- source.Watch(ctx, func(id string) { told <- id }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch ended with %v, want the error of its context", err)
		}
	})
	wait(t, told) // the first look: from here on nothing is missed
	return told
}

const patience = 30 * time.Second

func wait(t testing.TB, told <-chan string) string {
	t.Helper()
	select {
	case id := <-told:
		return id
	case <-time.After(patience):
		t.Fatal("nothing was told")
		return ""
	}
}

// await waits until a condition holds. It looks when something was told, and
// only then: a change may be told in steps, as a file that is written in place
// is empty first.
func await(t testing.TB, told <-chan string, holds func() bool) {
	t.Helper()
	for {
		wait(t, told)
		if holds() {
			return
		}
	}
}

// awaitCapacity waits until rule set a is told to be as it should.
func awaitCapacity(t testing.TB, source rules.Source, told <-chan string, want int) {
	t.Helper()
	await(t, told, func() bool {
		version, err := source.Load(t.Context(), "a")
		return err == nil && capacityOf(version.RuleSet) == want
	})
}
