package chaos

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// limits are the limits of one user: by bands of each kind, alone and together.
type limits struct {
	name  string // of the users and of the rules, and the path of the requests
	bands []rules.Band
	apart bool // a rule for each band
}

// maxCapacity is the largest capacity of all bands.
const maxCapacity = 2 * Capacity

// slotWork is how long a request holds its slot.
const slotWork = 5 * time.Millisecond

var (
	burst  = rules.Band{Label: "burst", Capacity: Capacity, RefillTokens: Rate, Refill: time.Second}
	quota  = rules.Band{Label: "quota", Kind: rules.Quota, Capacity: maxCapacity, Period: "day"}
	window = rules.Band{Label: "window", Kind: rules.SlidingWindow, Capacity: 2 * Rate, Refill: 2 * time.Second}
	// Longer than a run, so that a slot that is not released is not taken for a free one.
	slots = rules.Band{Label: "slots", Kind: rules.Concurrency, Capacity: 1, Hold: time.Minute}

	allLimits = []limits{
		{name: "user", bands: []rules.Band{burst}},
		{name: "quota", bands: []rules.Band{quota}},
		{name: "window", bands: []rules.Band{window}},
		{name: "slots", bands: []rules.Band{slots}},
		{name: "joined", bands: []rules.Band{burst, quota, window, slots}},
		{name: "apart", bands: []rules.Band{burst, quota, window, slots}, apart: true},
	}
)

// limitsOf returns the limits of a user. Most have a token bucket, every third of those
// who exceed their limit another one.
func limitsOf(user int) *limits {
	if other := user - steadyCallers; other >= 0 && other%3 == 2 {
		return &allLimits[1+other/3%(len(allLimits)-1)]
	}
	return &allLimits[0]
}

// onlySlots reports whether the limits bound no tokens.
func (l *limits) onlySlots() bool { return l.bands[0].Kind == rules.Concurrency }

// refills returns 1 if a user that sends more than the rate gets the rate every second.
func (l *limits) refills() int {
	if len(l.bands) == 1 && l.bands[0].Kind == "" {
		return 1
	}
	return 0
}

// rules returns the rules of the limits.
func (l *limits) rules() (all []rules.Rule) {
	one := rules.Rule{ID: l.name, Paths: []string{"/" + l.name}, Scope: rules.ScopeAPIKey, Bands: l.bands}
	if !l.apart {
		return []rules.Rule{one}
	}
	for _, b := range l.bands {
		rule := one
		rule.ID, rule.Bands = l.name+"-"+b.Label, []rules.Band{b}
		all = append(all, rule)
	}
	return all
}

// pathOf returns the path of the requests of a user.
func pathOf(user string) string {
	name, _, _ := strings.Cut(user, "-")
	return "/" + name
}

// holdsSlot reports whether the requests of a user hold slots.
func holdsSlot(user string) bool {
	return slices.ContainsFunc(allLimits, func(l limits) bool {
		return "/"+l.name == pathOf(user) && l.bands[len(l.bands)-1].Kind == rules.Concurrency
	})
}

// work holds the slot of an admitted request for a while, if it has one.
func (a *Answer) work(ctx context.Context, user string) {
	if holdsSlot(user) {
		a.from = time.Now()
		pause(ctx, slotWork)
		a.to = time.Now()
	}
}

// bound returns the most tokens that a user may get in a run from first to last in which
// each bucket loses its state so many times.
func (l *limits) bound(first, last time.Time, losses int) (most int) {
	most = math.MaxInt
	took := last.Sub(first)
	for _, b := range l.bands {
		lost := losses * int(b.Capacity)
		switch b.Kind {
		case rules.Quota:
			const day = 24 * 60 * 60
			most = min(most, lost+int(b.Capacity)*int(1+last.Unix()/day-first.Unix()/day))
		case rules.SlidingWindow:
			most = min(most, lost+int(b.Capacity)*int(1+took/b.Refill))
		case rules.Concurrency:
		default:
			most = min(most, lost+int(b.Capacity)+int(took.Seconds()*Rate))
		}
	}
	return most
}

// atOnce returns how many requests of a user held a slot at the same time, at most.
func atOnce(all []entry, user int) (most int) {
	type step struct {
		at time.Duration
		by int
	}
	var steps []step
	for i := range all {
		if e := &all[i]; e.user == user && e.to > e.from {
			steps = append(steps, step{e.from, 1}, step{e.to, -1})
		}
	}
	slices.SortFunc(steps, func(a, b step) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return a.by - b.by
	})
	now := 0
	for _, s := range steps {
		now += s.by
		most = max(most, now)
	}
	return most
}
