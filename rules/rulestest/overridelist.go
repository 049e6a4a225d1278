package rulestest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

var overrideListChecks = []Check{
	{"the list has the overrides that end first before others, page by page", overrideOrder},
	{"pages of a list miss and repeat no override that stays the same", overridePages},
}

// ending returns overrides with and without an end, in no order.
func (f *overriding) ending() []rules.Override {
	list := f.users("ends", 40, 2_000)
	for i := range list {
		switch end := time.Date(2100, 1, 1, 0, 0, (i*7)%20, 0, time.UTC); {
		case i%4 == 0: // has no end
		case i%4 == 1:
			list[i].Until = end.In(time.FixedZone("", 3*3600))
		case i%8 == 2:
			list[i].Until = end.Add(time.Microsecond)
		case i == 3:
			list[i].Until = time.Unix(1, 0) // has ended
		default:
			list[i].Until = end
		}
	}
	return list
}

// byEnd is the order of the list.
func byEnd(a, b rules.Override) int {
	switch {
	case a.Until.IsZero() != b.Until.IsZero():
		if a.Until.IsZero() {
			return 1
		}
		return -1
	case !a.Until.Equal(b.Until):
		return a.Until.Compare(b.Until)
	}
	return strings.Compare(a.ID(), b.ID())
}

func names(list []rules.Override) []string {
	all := make([]string, len(list))
	for i, o := range list {
		all[i] = fmt.Sprintf("%s until %v", o.Identity["userId"], o.Until.UTC())
	}
	return all
}

func overrideOrder(t testing.TB, s Subject) {
	f := newOverriding(t, s)
	all := f.ending()
	f.put(all...)
	f.put(deletion(all[0]), deletion(all[1]))
	changed := all[2]
	changed.Until = time.Time{}
	f.put(changed)
	want := append(slices.Clone(all[3:]), changed)
	slices.SortFunc(want, byEnd)
	for _, limit := range []int{1, 2, 7, len(want), 0, -1, rules.MaxPage + 1} {
		if got := f.list(limit, nil); !slices.Equal(names(got), names(want)) {
			t.Fatalf("in pages of %d the list is\n%s\nwant\n%s", limit, strings.Join(names(got), "\n"), strings.Join(names(want), "\n"))
		}
	}
	many := f.users("many", 2*rules.MaxPage, 2_000)
	f.put(many...)
	for _, limit := range []int{0, -1, rules.MaxPage + 1} {
		page, err := f.Overrides.ListOverrides(f.Context(), f.set, "", limit)
		if err != nil || len(page.Overrides) != rules.MaxPage || page.Next == "" {
			t.Errorf("a page of %d has %d overrides (error %v)", limit, len(page.Overrides), err)
		}
	}
}

func overridePages(t testing.TB, s Subject) {
	for name, change := range map[string]func(last rules.Override) rules.Override{
		"is deleted":      deletion,
		"has no end":      func(o rules.Override) rules.Override { o.Until = time.Time{}; return o },
		"ends later":      func(o rules.Override) rules.Override { o.Until = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC); return o },
		"ends earlier":    func(o rules.Override) rules.Override { o.Until = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); return o },
		"stays, with one": func(o rules.Override) rules.Override { o.Identity = map[string]string{"userId": o.ID()}; return o },
	} {
		f := newOverriding(t, s)
		all := f.ending()
		f.put(all...)
		same := map[string]bool{}
		for _, o := range all {
			same[o.ID()] = true
		}
		seen := map[string]int{}
		for _, o := range f.list(3, func(last rules.Override) {
			if same[last.ID()] { // else it would never end
				next := change(last)
				next.Revision = 0
				f.put(next)
				if next.ID() == last.ID() {
					delete(same, last.ID())
				}
			}
		}) {
			seen[o.ID()]++
		}
		for id := range same {
			if seen[id] != 1 {
				t.Fatalf("if the last override of each page %s, one that stays the same is listed %d times", name, seen[id])
			}
		}
	}
}
