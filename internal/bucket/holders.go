package bucket

// HolderID names a request that holds a slot of a concurrency band.
type HolderID [16]byte

// Holders are the requests that hold the slots of a band, with the moments at which
// they lose them unless they are renewed.
type Holders struct {
	// at is when a slot was last given or renewed. Renewing writes no other band, so the state
	// may be older.
	at    int64
	until map[HolderID]int64
}

// held returns how many hold a slot, and when the first and the last of them end.
func (h *Holders) held(now int64) (count, first, last int64) {
	if h == nil {
		return 0, 0, 0
	}
	for id, until := range h.until {
		switch {
		case until <= now:
			delete(h.until, id)
			continue
		case first == 0 || until < first:
			first = until
		}
		last = max(last, until)
	}
	return int64(len(h.until)), first, last
}

// after reports whether the clock has stepped back behind them.
func (h *Holders) after(now int64) bool { return h != nil && h.at > now }

// shifted are the holders after their clock stepped: each has as much time left as before.
func (h *Holders) shifted(by int64) *Holders {
	moved := &Holders{at: h.at + by, until: make(map[HolderID]int64, len(h.until))}
	for id, until := range h.until {
		moved.until[id] = until + by
	}
	return moved
}

// price is what a cost takes from a band, in units. A request holds one slot whatever
// it costs, and none without a holder.
func (v *View) price(b *Band, cost int64) int64 {
	switch {
	case b.Kind != Concurrency:
		return cost * b.Unit
	case v.Holder == HolderID{}:
		return 0
	}
	return min(cost, 1)
}

// hold gives a slot to the view's holder, if there is one.
func (v *View) hold(b *Band, i int) {
	if v.Holder == (HolderID{}) {
		return
	}
	steps := &v.Steps[i]
	until := v.Now + b.Period.Microseconds()
	v.Levels[i]++
	steps.Last = max(steps.Last, until)
	if steps.Holders == nil {
		steps.Holders = &Holders{until: map[HolderID]int64{}}
	}
	steps.Holders.at, steps.Holders.until[v.Holder] = v.Now, until
}

// release takes the slot of a holder back, and reports whether it had one.
func (h *Holders) release(id HolderID, now int64) bool {
	if h == nil || h.until[id] <= now {
		return false
	}
	delete(h.until, id)
	return true
}

// Extend renews the slots of a holder, and reports whether it still had all of them. A
// slot never ends earlier than before: the band may have had a longer hold.
func (v *View) Extend(bands []Band, id HolderID) bool {
	all := true
	for i := range bands {
		if bands[i].Kind != Concurrency {
			continue
		}
		holders := v.Steps[i].Holders
		if holders == nil || holders.until[id] == 0 {
			all = false
			continue
		}
		until := max(holders.until[id], v.Now+bands[i].Period.Microseconds())
		holders.at, holders.until[id] = v.Now, until
		v.Steps[i].Last = max(v.Steps[i].Last, until)
	}
	return all
}
