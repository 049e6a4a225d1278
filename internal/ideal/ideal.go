// Package ideal is a token bucket in exact rationals: the definition that tests
// compare the integer arithmetic and every store with. It shares no formula
// with internal/bucket: it counts tokens that are left, and internal/bucket
// counts units that are used. It is slow, and for tests only.
package ideal

import (
	"math/big"

	"github.com/fluxgate/fluxgate/internal/bucket"
)

// Bucket is one band's bucket.
type Bucket struct {
	Band  bucket.Band
	left  *big.Rat // tokens at the last write; negative is debt
	at    int64    // of the last write
	rate  *big.Rat // tokens per tick
	limit *big.Rat // tokens
}

// New returns a full bucket at a time in microseconds.
func New(b bucket.Band, at int64) *Bucket {
	d := &Bucket{at: at, left: big.NewRat(b.Capacity, 1)}
	d.setBand(b)
	return d
}

func (d *Bucket) setBand(b bucket.Band) {
	d.Band = b
	ticks := b.Period.Microseconds() / b.Tick
	d.rate = big.NewRat(b.Tokens, ticks)
	d.limit = big.NewRat(b.Capacity, 1)
}

// View is the bucket at now, leaving d as it was last written.
func (d *Bucket) View(now int64) *Bucket {
	v := *d
	v.left = new(big.Rat).Set(d.left)
	v.Advance(now)
	return &v
}

// Advance lets time pass; a clock that stepped back counts as none.
func (d *Bucket) Advance(now int64) {
	if elapsed := now/d.Band.Tick - d.at/d.Band.Tick; now > d.at && elapsed > 0 {
		d.left.Add(d.left, new(big.Rat).Mul(d.rate, big.NewRat(elapsed, 1)))
		if d.left.Cmp(d.limit) > 0 {
			d.left.Set(d.limit)
		}
	}
	d.at = now
}

// Wait is the number of ticks until n tokens are available.
func (d *Bucket) Wait(n int64) int64 {
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

// Take moves to the due tick, takes the tokens, and moves back.
func (d *Bucket) Take(n int64) {
	passed := new(big.Rat).Mul(d.rate, big.NewRat(d.Wait(n), 1))
	d.left.Add(d.left, passed)
	if d.left.Cmp(d.limit) > 0 {
		d.left.Set(d.limit)
	}
	d.left.Sub(d.left, big.NewRat(n, 1))
	d.left.Sub(d.left, passed)
}

// Change carries the used share over to other numbers, rounded up to the new
// band's unit.
func (d *Bucket) Change(b bucket.Band) {
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

// GiveBack gives back up to want of n tokens that were due at due, if the last
// promised take is due at last.
func (d *Bucket) GiveBack(n, wanted, due, last int64) {
	most := big.NewRat(n, 1)
	if gone := last/d.Band.Tick - due/d.Band.Tick; gone > 0 {
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

// Charge takes n tokens more, as far as the largest debt allows.
func (d *Bucket) Charge(n int64) {
	d.left.Sub(d.left, big.NewRat(n, 1))
	if lowest := new(big.Rat).SetFrac64(d.Band.Limit-d.Band.Max, d.Band.Unit); d.left.Cmp(lowest) < 0 {
		d.left.Set(lowest)
	}
}

// Used is what the integer arithmetic should hold, in units; ok is false if
// it is no whole number.
func (d *Bucket) Used() (units int64, ok bool) {
	u := new(big.Rat).Sub(d.limit, d.left)
	u.Mul(u, big.NewRat(d.Band.Unit, 1))
	return u.Num().Int64(), u.IsInt()
}

// Due is when n tokens are available, in microseconds.
func (d *Bucket) Due(n, now int64) int64 {
	return max(now, (now/d.Band.Tick+d.Wait(n))*d.Band.Tick)
}

// Remaining is how many whole tokens are left.
func (d *Bucket) Remaining() int64 {
	if d.left.Sign() <= 0 {
		return 0
	}
	return new(big.Int).Quo(d.left.Num(), d.left.Denom()).Int64()
}

// Full reports whether nothing is used.
func (d *Bucket) Full() bool { return d.left.Cmp(d.limit) == 0 }

// Positive reports whether more than 0 is left.
func (d *Bucket) Positive() bool { return d.left.Sign() > 0 }
