package pendingids_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fluxgate/fluxgate/internal/pendingids"
)

// Ids are returned once. Too many ids become "".
func TestSet_Take(t *testing.T) {
	s := pendingids.New()
	add := func(ids ...string) []string {
		for _, id := range ids {
			s.Add(id)
		}
		if len(ids) > 0 {
			<-s.Wake()
		}
		taken := s.Take()
		slices.Sort(taken)
		return taken
	}
	var many []string
	for i := range 1_001 {
		many = append(many, fmt.Sprint(i))
	}
	for _, c := range []struct{ added, want []string }{
		{[]string{"b", "a", "b"}, []string{"a", "b"}},
		{nil, nil},
		{[]string{"a", "", "b"}, []string{""}},
		{many, []string{""}},
		{many[:1_000], slices.Sorted(slices.Values(many[:1_000]))},
	} {
		if got := add(c.added...); !slices.Equal(got, c.want) {
			t.Errorf("of %d ids %d are taken: %.100q", len(c.added), len(got), got)
		}
	}
	select {
	case <-s.Wake():
		t.Error("an empty set wakes")
	default:
	}
}
