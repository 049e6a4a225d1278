package fluxgate

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// ErrReceipt is wrapped by errors about a receipt that cannot be settled here,
// such as that of a decision that another process made. Nothing was settled,
// and the receipt is not used up.
var ErrReceipt = errors.New("the receipt cannot be settled here")

// Receipt remembers what was taken, so that it can be settled once.
type Receipt struct {
	// Takes are the bucket sets that were taken from.
	Takes []Taken
	// Token is the receipt of a decision that a server made. Only the server
	// can read it: settle it with the client that asked the server.
	Token string

	settled atomic.Bool
}

// Spend marks the receipt as settled. It reports whether it was not before.
func (r *Receipt) Spend() bool { return r.settled.CompareAndSwap(false, true) }

// Taken is one bucket set that was taken from.
type Taken struct {
	Key    Key
	Bands  []ExactBand
	Cost   int64
	Source Source
	// At is when it was taken, by the store's clock in microseconds.
	At int64
	// Due is when the tokens of each band were due, by the store's clock in
	// microseconds. Nil means at once.
	Due []int64
}

// Settlement is what came of settling a receipt, in whole tokens. Where a
// receipt covers several bands it speaks of the one that moved least.
type Settlement struct {
	// Returned came back. It may be less than the difference: what could
	// have been handed out twice does not come back.
	Returned int64
	// Charged was taken in addition. It may be less than the difference: debt
	// is bounded.
	Charged int64
}

// NewReceipt is the receipt for what a Take granted, or nil if it granted
// nothing.
func NewReceipt(demands []Demand, out *Outcome) *Receipt {
	var r *Receipt
	for i := range demands {
		d, result := &demands[i], &out.Results[i]
		if result.Granted == 0 {
			continue
		}
		if r == nil {
			r = &Receipt{Takes: make([]Taken, 0, len(demands)-i)}
		}
		taken := Taken{Key: d.Key, Bands: d.Bands, Cost: result.Granted, Source: result.Source, At: result.Now}
		if result.Wait > 0 {
			taken.Due = make([]int64, len(result.Bands))
			for j := range result.Bands {
				taken.Due[j] = result.Now + result.Bands[j].Wait.Microseconds()
			}
		}
		r.Takes = append(r.Takes, taken)
	}
	return r
}

// from is the part of the receipt that one source has to settle.
func (r *Receipt) from(fallback bool) *Receipt {
	part := new(Receipt)
	for _, t := range r.Takes {
		if (t.Source == FromFallback) == fallback {
			part.Takes = append(part.Takes, t)
		}
	}
	return part
}

// CheckReceipt refuses receipts that no store can settle, and negative costs.
// Stores call it first.
func CheckReceipt(receipt *Receipt, actual int64) error {
	switch {
	case actual < 0:
		return fmt.Errorf("%w: a cost of %d", ErrDemand, actual)
	case receipt != nil && len(receipt.Takes) == 0 && receipt.Token != "":
		return fmt.Errorf("%w: a server made the decision; settle it with the client that asked the server", ErrReceipt)
	case receipt == nil || len(receipt.Takes) == 0:
		return fmt.Errorf("%w: it names no bucket", ErrReceipt)
	}
	for i := range receipt.Takes {
		if n := len(receipt.Takes[i].Bands); n == 0 || n > MaxBands {
			return fmt.Errorf("%w: %d bands", ErrReceipt, n)
		}
	}
	return nil
}
