package audit

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Nobody is who asks if that is not known.
const Nobody = "nobody"

// maxAddresses is how many addresses are told apart within a minute.
const maxAddresses = 100

// strangers counts what is tried by callers whom nobody knows, minute by minute,
// so that they cannot fill the disk.
type strangers struct {
	most  int // records of one address in a minute
	began time.Time
	seen  map[string]*tally
	rest  tally // of the addresses that are too many
}

// tally is what one address has tried within a minute.
type tally struct {
	records     int // are written
	more        int // are counted
	first, last time.Time
}

// count reports whether a record is one too many, which is counted alone.
func (s *strangers) count(r *Record, now time.Time) bool {
	if r.Who != Nobody || r.Outcome == Changed {
		return false
	}
	if len(s.seen) == 0 {
		s.began, s.seen = now, make(map[string]*tally)
	}
	t := s.seen[r.From]
	switch {
	case t != nil:
	case len(s.seen) < maxAddresses:
		t = new(tally)
		s.seen[r.From] = t
	default:
		t = &s.rest
	}
	if t.records < s.most {
		t.records++
		return false
	}
	if t.more == 0 {
		t.first = now
	}
	t.more++
	t.last = now
	return true
}

// over reports whether a minute has gone by since the first was seen.
func (s *strangers) over(now time.Time) bool {
	return len(s.seen) > 0 && now.Sub(s.began) >= time.Minute
}

// end are the records of what was only counted. It begins anew.
func (s *strangers) end(now time.Time) []Record {
	var all []Record
	add := func(t *tally, from, named string) {
		if t.more > 0 {
			all = append(all, Record{
				Time: now.UTC(), Who: Nobody, From: from, Operation: "audit-more", Outcome: Refused,
				Detail: fmt.Sprintf("And %d more from %s between %s and %s.", t.more, named, t.first.UTC().Format(time.RFC3339), t.last.UTC().Format(time.RFC3339)),
			})
		}
	}
	for _, from := range slices.Sorted(maps.Keys(s.seen)) {
		add(s.seen[from], from, from)
	}
	add(&s.rest, "", "other addresses")
	s.seen, s.rest = nil, tally{}
	return all
}
