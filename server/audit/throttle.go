package audit

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Unauthenticated is the name of callers without a valid identity.
const Unauthenticated = "unauthenticated"

// maxAddresses is how many addresses are counted apart within a minute.
const maxAddresses = 100

// anonymousThrottle bounds the records of unauthenticated callers in a minute, so
// that they cannot fill the disk. Further attempts are only counted.
type anonymousThrottle struct {
	max   int // records of one address in a minute
	began time.Time
	byIP  map[string]*attempts
	rest  attempts // of all addresses beyond maxAddresses
}

// attempts are those of one address within a minute.
type attempts struct {
	recorded, counted int
	first, last       time.Time // of those that were counted
}

// count reports whether a record is beyond the bound. It is counted then.
func (a *anonymousThrottle) count(r *Record, now time.Time) bool {
	if r.Who != Unauthenticated || r.Outcome == Changed {
		return false
	}
	if len(a.byIP) == 0 {
		a.began, a.byIP = now, make(map[string]*attempts)
	}
	t := a.byIP[r.From]
	switch {
	case t != nil:
	case len(a.byIP) < maxAddresses:
		t = new(attempts)
		a.byIP[r.From] = t
	default:
		t = &a.rest
	}
	if t.recorded < a.max {
		t.recorded++
		return false
	}
	if t.counted == 0 {
		t.first = now
	}
	t.counted++
	t.last = now
	return true
}

// over reports whether a minute has passed since the first attempt.
func (a *anonymousThrottle) over(now time.Time) bool {
	return len(a.byIP) > 0 && now.Sub(a.began) >= time.Minute
}

// end returns records of the attempts that were only counted, and starts over.
func (a *anonymousThrottle) end(now time.Time) []Record {
	var all []Record
	add := func(t *attempts, from, name string) {
		if t.counted > 0 {
			all = append(all, Record{
				Time: now.UTC(), Who: Unauthenticated, From: from, Operation: "audit-more", Outcome: Refused,
				Detail: fmt.Sprintf("%d more from %s between %s and %s.", t.counted, name,
					t.first.UTC().Format(time.RFC3339), t.last.UTC().Format(time.RFC3339)),
			})
		}
	}
	for _, from := range slices.Sorted(maps.Keys(a.byIP)) {
		add(a.byIP[from], from, from)
	}
	add(&a.rest, "", "other addresses")
	a.byIP, a.rest = nil, attempts{}
	return all
}
