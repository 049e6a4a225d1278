package bucket

import "math/big"

// ideal is a token bucket in exact rationals: the definition that the integer
// arithmetic is held against. It shares no formula with it: it counts tokens
// that are left, where Band counts units that are used.
type ideal struct {
	band  Band
	left  *big.Rat // tokens at the last write; negative is debt
	at    int64    // of the last write
	rate  *big.Rat // tokens per tick
	limit *big.Rat // tokens
}

func newIdeal(b Band, at int64) *ideal {
	d := &ideal{at: at, left: big.NewRat(b.Capacity, 1)}
	d.setBand(b)
	return d
}

func (d *ideal) setBand(b Band) {
	d.band = b
	ticks := b.Period.Microseconds() / b.Tick
	d.rate = big.NewRat(b.Tokens, ticks)
	d.limit = big.NewRat(b.Capacity, 1)
}

// view is the bucket at now, leaving d as it was last written.
func (d *ideal) view(now int64) *ideal {
	v := *d
	v.left = new(big.Rat).Set(d.left)
	v.advance(now)
	return &v
}

func (d *ideal) advance(now int64) {
	if elapsed := now/d.band.Tick - d.at/d.band.Tick; now > d.at && elapsed > 0 {
		d.left.Add(d.left, new(big.Rat).Mul(d.rate, big.NewRat(elapsed, 1)))
		if d.left.Cmp(d.limit) > 0 {
			d.left.Set(d.limit)
		}
	}
	d.at = now
}

// wait is the number of ticks until n tokens are there.
func (d *ideal) wait(n int64) int64 {
	missing := new(big.Rat).Sub(big.NewRat(n, 1), d.left)
	if missing.Sign() <= 0 {
		return 0
	}
	ticks := missing.Quo(missing, d.rate)
	whole := new(big.Int).Quo(ticks.Num(), ticks.Denom())
	if !ticks.IsInt() {
		whole.Add(whole, big.NewInt(1))
	}
	return whole.Int64()
}

// take goes to the due tick, takes there, and comes back.
func (d *ideal) take(n int64) {
	passed := new(big.Rat).Mul(d.rate, big.NewRat(d.wait(n), 1))
	d.left.Add(d.left, passed)
	if d.left.Cmp(d.limit) > 0 {
		d.left.Set(d.limit)
	}
	d.left.Sub(d.left, big.NewRat(n, 1))
	d.left.Sub(d.left, passed)
}

// change carries the used share over to other numbers, rounded up to the new
// band's unit.
func (d *ideal) change(b Band) {
	used := new(big.Rat).Sub(d.limit, d.left)
	used.Quo(used, d.limit)
	used.Mul(used, big.NewRat(b.Limit, 1))
	units := new(big.Int).Quo(used.Num(), used.Denom())
	if !used.IsInt() {
		units.Add(units, big.NewInt(1))
	}
	if most := big.NewInt(b.Max); units.Cmp(most) > 0 {
		units = most
	}
	d.setBand(b)
	d.left.Sub(d.limit, new(big.Rat).SetFrac(units, big.NewInt(b.Unit)))
}

// giveBack returns what is wanted of n tokens that were due at due, when the
// last promise to anyone is due at last.
func (d *ideal) giveBack(n, wanted, due, last int64) {
	most := big.NewRat(n, 1)
	if gone := last/d.band.Tick - due/d.band.Tick; gone > 0 {
		most.Sub(most, new(big.Rat).Mul(d.rate, big.NewRat(gone, 1)))
	}
	if w := big.NewRat(wanted, 1); most.Cmp(w) > 0 {
		most = w
	}
	if most.Sign() <= 0 {
		return
	}
	d.left.Add(d.left, most)
	if d.left.Cmp(d.limit) > 0 {
		d.left.Set(d.limit)
	}
}

func (d *ideal) charge(n int64) {
	d.left.Sub(d.left, big.NewRat(n, 1))
	if lowest := new(big.Rat).SetFrac64(d.band.Limit-d.band.Max, d.band.Unit); d.left.Cmp(lowest) < 0 {
		d.left.Set(lowest)
	}
}

// used is what the integer arithmetic should hold, in units; ok is false if
// it is no whole number.
func (d *ideal) used() (units int64, ok bool) {
	u := new(big.Rat).Sub(d.limit, d.left)
	u.Mul(u, big.NewRat(d.band.Unit, 1))
	return u.Num().Int64(), u.IsInt()
}
