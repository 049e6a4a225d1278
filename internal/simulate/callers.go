package simulate

import (
	"cmp"
	"slices"

	"github.com/fluxgate/fluxgate/store"
)

const (
	// maxCallers is how many callers of one rule are kept at most, maxAllCallers how many
	// of the at most 10,000 rules of a rule set. A caller takes about 150 bytes.
	maxCallers    = 100_000
	maxAllCallers = 1_000_000
)

// callers counts the requests of each caller of a rule: exactly while there are few
// enough. Beyond, those that were limited least are dropped, and the counts of callers
// that come later have an error.
type callers struct {
	most  int
	index map[store.KeyID]int32
	all   []callerCount
	// distinct and limited are how many different ones there were, at least.
	distinct, limited int
	// missed is how many requests a caller that was dropped had at most.
	missed int64
}

type callerCount struct {
	Caller // its identity is set once it is limited
	id     store.KeyID
}

// callersOf are those of one of so many rules.
func callersOf(rules int) callers {
	return callers{most: max(100, min(maxCallers, maxAllCallers/max(1, rules))), index: map[store.KeyID]int32{}}
}

// overflowed reports whether callers were dropped.
func (c *callers) overflowed() bool { return c.missed > 0 }

// of returns the count of a caller, until the next call.
func (c *callers) of(id store.KeyID) *callerCount {
	if i, ok := c.index[id]; ok {
		return &c.all[i]
	}
	if len(c.all) == c.most {
		c.drop()
	}
	if !c.overflowed() {
		c.distinct++
	}
	c.index[id] = int32(len(c.all))
	c.all = append(c.all, callerCount{Caller{Error: c.missed}, id})
	return &c.all[len(c.all)-1]
}

// drop drops the half that was limited least, of those the ones with the fewest requests.
func (c *callers) drop() {
	c.sort()
	kept := len(c.all) / 2
	for i := range c.all[kept:] {
		dropped := &c.all[kept+i]
		c.missed = max(c.missed, dropped.Requests+dropped.Error)
		delete(c.index, dropped.id)
	}
	clear(c.all[kept:])
	c.all = c.all[:kept]
	for i := range c.all {
		c.index[c.all[i].id] = int32(i)
	}
}

// sort puts those that were limited most first.
func (c *callers) sort() {
	slices.SortFunc(c.all, func(a, b callerCount) int {
		return cmp.Or(cmp.Compare(b.Limited, a.Limited), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Identity, b.Identity))
	})
}

// worst are the callers that were limited most. No other call may follow.
func (c *callers) worst(most int) []Caller {
	c.sort()
	found := []Caller{}
	for i := range c.all {
		if len(found) < most && c.all[i].Limited > 0 {
			found = append(found, c.all[i].Caller)
		}
	}
	return found
}
