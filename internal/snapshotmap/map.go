// Package snapshotmap has a bounded map for many readers and few writers.
package snapshotmap

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Map is a map that is read without a lock: it is never changed, only replaced by another
// one. Its zero value is empty.
type Map[K comparable, V any] struct {
	mu       sync.Mutex // held while entries are added or dropped
	snapshot atomic.Pointer[map[K]V]
}

// Entries returns the entries, which must not be changed.
func (m *Map[K, V]) Entries() map[K]V {
	if entries := m.snapshot.Load(); entries != nil {
		return *entries
	}
	return nil
}

// Add returns the value of a key. If there is none yet it creates it, unless the map has
// so many entries already.
func (m *Map[K, V]) Add(key K, most int, create func() V) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries := m.Entries()
	if value, ok = entries[key]; ok || len(entries) >= most {
		return value, ok
	}
	larger := make(map[K]V, len(entries)+1)
	maps.Copy(larger, entries)
	value = create()
	larger[key] = value
	m.snapshot.Store(&larger)
	return value, true
}

// Drop removes the entries for which drop returns true.
func (m *Map[K, V]) Drop(drop func(K, V) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	smaller := maps.Clone(m.Entries())
	maps.DeleteFunc(smaller, drop)
	m.snapshot.Store(&smaller)
}
