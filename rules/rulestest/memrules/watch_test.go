package memrules_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

const patience = 30 * time.Second

// watch runs a watcher until the test ends. It returns when the watcher runs.
func watch(t *testing.T, s *memrules.Source, changed func(id string)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	began, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		var once sync.Once
		ended <- s.Watch(ctx, func(id string) {
			first := false
			once.Do(func() { first = true; began <- id })
			if !first {
				changed(id)
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Watch ended with %v", err)
			}
		case <-time.After(patience):
			t.Error("Watch goes on after its context has ended")
		}
	})
	if got := receive(t, began); got != "" {
		t.Errorf("the first call of a watcher is with %q, want \"\"", got)
	}
}

func receive(t *testing.T, from <-chan string) string {
	t.Helper()
	select {
	case id := <-from:
		return id
	case <-time.After(patience):
		t.Fatal("the watcher was not called")
		return ""
	}
}

// A watcher is called for every rule set that changed.
func TestWatch_EveryRuleSet(t *testing.T) {
	s := memrules.New(memrules.Config{})
	ids := make(chan string, 10)
	watch(t, s, func(id string) { ids <- id })
	for _, id := range []string{"a", "b"} {
		put(t, s, set(t, id, nil), 0)
		if got := receive(t, ids); got != id {
			t.Errorf("called with %q, %q was changed", got, id)
		}
	}
}

// A watcher that blocks delays no writer.
func TestWatch_Blocked(t *testing.T) {
	s := memrules.New(memrules.Config{})
	ids, goOn := make(chan string, 3000), make(chan struct{})
	watch(t, s, func(id string) {
		ids <- id
		<-goOn
	})
	defer close(goOn)
	put(t, s, set(t, "a", nil), 0)
	receive(t, ids) // and it blocks
	for i := range int64(100) {
		put(t, s, set(t, "b", nil), i)
	}
	goOn <- struct{}{}
	if got := receive(t, ids); got != "b" {
		t.Errorf("called with %q, want b", got)
	}
	for i := range 2000 {
		put(t, s, set(t, fmt.Sprintf("set-%d", i), nil), 0)
	}
	goOn <- struct{}{}
	if got := receive(t, ids); got != "" {
		t.Errorf("called with %q, want \"\" for changes of 2,000 rule sets", got)
	}
	put(t, s, set(t, "c", nil), 0)
	goOn <- struct{}{}
	if got := receive(t, ids); got != "c" {
		t.Errorf("called with %q, want c: 100 changes of b are one", got)
	}
}

// A watcher can use the source.
func TestWatch_UsesSource(t *testing.T) {
	s := memrules.New(memrules.Config{})
	ids := make(chan string, 10)
	watch(t, s, func(id string) {
		v, err := s.Load(t.Context(), id)
		if err != nil {
			t.Error(err)
			return
		}
		ids <- v.RuleSet.ID()
	})
	put(t, s, set(t, "a", nil), 0)
	if got := receive(t, ids); got != "a" {
		t.Errorf("loaded %q", got)
	}
}
