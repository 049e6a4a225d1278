package memstore

import "container/heap"

// ruleBuckets are the buckets of one rule in one shard. It exists only while
// there are any, so the accounting is bounded by the number of buckets.
type ruleBuckets struct {
	rule  target
	queue queue
	// at is the index in each of the shard's two orders.
	at [2]int
	// one is room for the queue of a single bucket.
	one [1]*entry
}

// The two orders in which a shard keeps its rules.
const (
	byFront = iota // the rule with the bucket nearest to full first
	byCount        // the rule with the most buckets first
)

// ruleOrder is a heap of the rules of a shard, for [container/heap].
type ruleOrder struct {
	rules []*ruleBuckets
	by    int
}

func (o *ruleOrder) Len() int { return len(o.rules) }

func (o *ruleOrder) Less(i, j int) bool {
	a, b := o.rules[i].queue, o.rules[j].queue
	if o.by == byCount {
		return len(a) > len(b)
	}
	return a[0].queued < b[0].queued
}

func (o *ruleOrder) Swap(i, j int) {
	o.rules[i], o.rules[j] = o.rules[j], o.rules[i]
	o.rules[i].at[o.by], o.rules[j].at[o.by] = i, j
}

func (o *ruleOrder) Push(r any) {
	o.rules = append(o.rules, r.(*ruleBuckets))
	o.rules[len(o.rules)-1].at[o.by] = len(o.rules) - 1
}

func (o *ruleOrder) Pop() any {
	last := len(o.rules) - 1
	r := o.rules[last]
	o.rules[last] = nil
	o.rules = o.rules[:last]
	return r
}

// enqueue adds an entry to the queue of its rule.
func (s *shard) enqueue(rule target, e *entry) {
	if r := s.rules[rule]; r != nil {
		r.queue.push(e)
		s.reorder(r)
		return
	}
	r := s.spareRule
	if s.spareRule = nil; r == nil {
		r = new(ruleBuckets)
	}
	r.rule, r.queue = rule, append(r.one[:0], e)
	s.rules[rule] = r
	for by := range s.order {
		heap.Push(&s.order[by], r)
	}
}

// reorder moves a rule whose queue has changed to its place, and removes it if
// it has no buckets left.
func (s *shard) reorder(r *ruleBuckets) {
	if len(r.queue) > 0 {
		for by := range s.order {
			heap.Fix(&s.order[by], r.at[by])
		}
		return
	}
	for by := range s.order {
		heap.Remove(&s.order[by], r.at[by])
	}
	delete(s.rules, r.rule)
	*r = ruleBuckets{}
	s.spareRule = r
}

// crowded returns the rule that loses a bucket to a new one in a full shard.
// All rules in the shard have equal shares. If the rule of the new bucket is
// below its share, the rule with the most buckets loses one; otherwise the rule
// of the new bucket does.
func (s *shard) crowded(newcomer target) *ruleBuckets {
	own := s.rules[newcomer]
	if own == nil || len(own.queue)*len(s.rules) < s.most {
		return s.order[byCount].rules[0]
	}
	return own
}
