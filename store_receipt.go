package fluxgate

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/fluxgate/fluxgate/internal/bucket"
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

// Spend marks the receipt as settled. It returns false if it was settled
// before.
func (r *Receipt) Spend() bool { return r.settled.CompareAndSwap(false, true) }

// Taken is one bucket set that was taken from.
type Taken struct {
	Key   Key
	Bands []ExactBand
	// Cost is what every band was debited. Bands may have been debited more, up
	// to Asked, by an overdraft that the largest debt of another band cut.
	Cost, Asked int64
	Source      Source
	// At is when it was taken, by the store's clock in microseconds.
	At int64
	// Due is when the tokens of each band were due, and for a quota when its period
	// ends, by the store's clock in microseconds. Nil means at once.
	Due []int64
	// Price is how it was counted, nil for a rule that counts requests.
	Price *Price
	// Holder is who holds slots of bands that limit requests at the same time.
	Holder HolderID
}

func isConcurrency(b ExactBand) bool { return b.Kind == bucket.Concurrency }

// HoldsSlot reports whether it holds a slot of requests at the same time.
func (t *Taken) HoldsSlot() bool { return slices.ContainsFunc(t.Bands, isConcurrency) }

func isQuota(b ExactBand) bool { return b.Kind == bucket.Quota }

// Correction is the cost to settle a take at, given its actual cost: what is
// between Cost and Asked was debited where there was room. Stores use it.
func (t *Taken) Correction(actual int64) int64 {
	if actual <= t.Cost || t.Asked <= t.Cost {
		return actual
	}
	return t.Cost + max(0, actual-t.Asked)
}

// Settlement is the result of settling one take of a receipt, or all of them
// together, in whole tokens. Of several bands it is that of the band that
// changed least.
type Settlement struct {
	// Returned came back. It may be less than the difference: what could
	// have been handed out twice does not come back.
	Returned int64
	// Charged was taken in addition. It may be less than the difference: debt
	// is bounded.
	Charged int64
	// NotSent is why a store did not get the settlement, or refused it: nothing was settled,
	// and it may be sent again. An [Engine] does so when the store is available.
	NotSent error
}

// SettleError joins the error of a Settle with why the store did not get the takes that it did
// not get.
func SettleError(settled []Settlement, err error) error {
	errs := []error{err}
	for i := range settled {
		errs = append(errs, settled[i].NotSent)
	}
	return errors.Join(errs...)
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
		taken := Taken{Key: d.Key, Bands: d.Bands, Cost: result.Granted, Asked: result.Granted, Source: result.Source, At: result.Now, Holder: d.Holder, Price: d.Price}
		if d.Overdraft || d.CountsRefused() {
			taken.Asked = d.Cost
		}
		if result.Wait > 0 || slices.ContainsFunc(d.Bands, isQuota) {
			taken.Due = make([]int64, len(result.Bands))
			for j := range result.Bands {
				taken.Due[j] = d.due(j, result)
			}
		}
		r.Takes = append(r.Takes, taken)
	}
	return r
}

// due is when the tokens of a band were due, and for a quota when its period ends. A quota
// that is not used is full now, and one in debt only at the end of a later period.
func (d *Demand) due(j int, r *Result) int64 {
	band := &r.Bands[j]
	switch {
	case !isQuota(d.Bands[j]):
		return r.Now + band.Wait.Microseconds()
	case band.FullAfter == 0 || band.Owed > 0 && !d.CountsRefused():
		return d.Bands[j].EdgeAfter(r.Now)
	}
	return r.Now + band.FullAfter.Microseconds()
}

// Withdrawal is the receipt for what must be given back if the request is
// refused: what a Take granted, without what is [Demand.Debited]. It is nil if that is
// nothing.
func Withdrawal(demands []Demand, out *Outcome) *Receipt {
	r := NewReceipt(demands, out)
	if r == nil {
		return nil
	}
	debited := func(t Taken) bool {
		i := slices.IndexFunc(demands, func(d Demand) bool { return d.Key.ID == t.Key.ID })
		return demands[i].Debited(out.Results[i].Status)
	}
	if r.Takes = slices.DeleteFunc(r.Takes, debited); len(r.Takes) == 0 {
		return nil
	}
	return r
}

// Same is one actual cost for all takes of the receipt, as [Store.Settle]
// expects it.
func (r *Receipt) Same(actual int64) []int64 {
	if r == nil {
		return nil
	}
	return slices.Repeat([]int64{actual}, len(r.Takes))
}

// costs is one actual cost for each take: what cost returns for it.
func (r *Receipt) costs(cost func(t *Taken) int64) []int64 {
	if r == nil {
		return nil
	}
	all := make([]int64, len(r.Takes))
	for i := range r.Takes {
		all[i] = cost(&r.Takes[i])
	}
	return all
}

// CheckReceipt refuses receipts that no store can settle, and costs that are
// negative or not one for each take. Stores call it first.
func CheckReceipt(receipt *Receipt, actual []int64) error {
	switch {
	case receipt != nil && len(receipt.Takes) == 0 && receipt.Token != "":
		return fmt.Errorf("%w: a server made the decision; settle it with the client of that server", ErrReceipt)
	case receipt == nil || len(receipt.Takes) == 0:
		return fmt.Errorf("%w: it names no bucket", ErrReceipt)
	case len(actual) != len(receipt.Takes):
		return fmt.Errorf("%w: %d actual costs for a receipt of %d takes", ErrDemand, len(actual), len(receipt.Takes))
	}
	for i := range receipt.Takes {
		if n := len(receipt.Takes[i].Bands); n == 0 || n > MaxBands {
			return fmt.Errorf("%w: %d bands", ErrReceipt, n)
		}
		if actual[i] < 0 {
			return fmt.Errorf("%w: a cost of %d", ErrDemand, actual[i])
		}
	}
	return nil
}
