package reload_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// resets returns how many resets a fleet did.
func resets(fleet []*reload.Reloader) (n uint64) {
	for _, r := range fleet {
		n += r.Stats().Resets
	}
	return n
}

// reloadAll lets a fleet load a change, one gateway after the other.
func reloadAll(t *testing.T, fleet []*reload.Reloader) {
	t.Helper()
	for _, r := range fleet {
		if err := r.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func redisStores(t *testing.T, n int) (stores []*redisstore.Store) {
	t.Helper()
	server := testenv.StartStandalone(t, testenv.Config{})
	for range n {
		store, err := redisstore.Open(t.Context(), server.URI(), redisstore.Config{Timeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		stores = append(stores, store)
	}
	return stores
}

// Content of a file that returns has the revision that it had. Each change resets once, whichever
// gateway sees it first.
func TestResetBuckets_ContentReturns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(capacity int) {
		text := fmt.Sprintf("id: set\nrules: [{id: r, bands: [{label: x, capacity: %d, refill: 1h}]}]\n", capacity)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(5)
	var fleet []*reload.Reloader
	for _, store := range redisStores(t, 3) {
		source, err := filerules.Open(file, filerules.Config{Settle: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		fleet = append(fleet, start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: 20 * time.Millisecond, ResetBuckets: store}))
	}
	for i, c := range []int{6, 5, 6, 5, 7, 5} {
		write(c)
		for _, r := range fleet {
			until(t, "the change is in effect and its reset is done", func() bool {
				s := r.Stats()
				return capacity(t, r, "set") == int64(c) && s.Swaps == uint64(i+1)
			})
		}
		time.Sleep(100 * time.Millisecond) // several polls
		if got := resets(fleet); got != uint64(i+1) {
			t.Errorf("%d resets of %d changes", got, i+1)
		}
	}
}

// A source that has lost its data counts from 1 again. Its changes reset once too.
func TestResetBuckets_RevisionsAgain(t *testing.T) {
	source := newStubSource()
	put(t, source, "set", 1)
	var fleet []*reload.Reloader
	for _, store := range redisStores(t, 3) {
		fleet = append(fleet, start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: never, ResetBuckets: store}))
	}
	changes := uint64(0)
	for range 2 {
		for i := range 3 {
			put(t, source, "set", int64(10+i))
			reloadAll(t, fleet)
			if changes++; resets(fleet) != changes {
				t.Errorf("%d resets of %d changes", resets(fleet), changes)
			}
		}
		source.Source = memrules.New(memrules.Config{})
		for i := range 4 { // to the revision that is in effect
			put(t, source, "set", int64(20+i))
		}
		reloadAll(t, fleet)
		if changes++; resets(fleet) != changes {
			t.Errorf("%d resets of %d changes, the last one to the same revision", resets(fleet), changes)
		}
	}
}

var _ rules.Source = (*filerules.Source)(nil)
