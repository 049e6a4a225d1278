package snapshotmap_test

import (
	"testing"

	"github.com/fluxgate/fluxgate/internal/snapshotmap"
)

func TestMap(t *testing.T) {
	var m snapshotmap.Map[string, int]
	if len(m.Entries()) != 0 {
		t.Error("a new map has entries")
	}
	one := func() int { return 1 }
	if v, ok := m.Add("a", 2, one); v != 1 || !ok {
		t.Errorf("added %d, %t", v, ok)
	}
	before := m.Entries()
	m.Add("b", 2, func() int { return 2 })
	if len(before) != 1 {
		t.Error("a snapshot has changed")
	}
	if v, ok := m.Add("c", 2, one); ok {
		t.Errorf("a full map takes %d", v)
	}
	if v, ok := m.Add("b", 2, one); v != 2 || !ok {
		t.Errorf("the entry of a full map is %d, %t", v, ok)
	}
	m.Drop(func(key string, value int) bool { return key == "a" && value == 1 })
	if _, ok := m.Entries()["a"]; ok || len(m.Entries()) != 1 || len(before) != 1 {
		t.Errorf("left after dropping: %v", m.Entries())
	}
}
