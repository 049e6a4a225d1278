package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fluxgate/fluxgate/internal/bucket"
)

// Taken is one bucket set that was taken from.
type Taken struct {
	Key   Key
	Bands []ExactBand
	// Cost is the debit of every band. An overdraft that the largest debt of one band
	// cut may have debited other bands more, up to Asked.
	Cost, Asked int64
	Source      Source
	// At is when it was taken, by the store's clock in microseconds.
	At int64
	// Due is when the tokens of each band were due, and for a quota when its period
	// ends, by the store's clock in microseconds. Nil means at once.
	Due []int64
	// Holder is the request that holds slots of limits on concurrent requests.
	Holder HolderID
}

// HoldsSlot reports whether the take holds a slot of a limit on concurrent requests.
func (t *Taken) HoldsSlot() bool { return slices.ContainsFunc(t.Bands, bucket.IsConcurrency) }

// Correction returns the cost to settle a take at, given its actual cost. Tokens
// between Cost and Asked were debited where there was room. Stores use it.
func (t *Taken) Correction(actual int64) int64 {
	if actual <= t.Cost || t.Asked <= t.Cost {
		return actual
	}
	return t.Cost + max(0, actual-t.Asked)
}

// Settlement is the result of settling one take, or all of a request together, in whole
// tokens. Of several bands it is that of the band that changed least.
type Settlement struct {
	// Returned is the number of tokens that came back. It may be less than the
	// difference: tokens that could be taken twice do not come back.
	Returned int64 `json:"returned"`
	// Charged is the number of tokens taken in addition. It may be less than the
	// difference: debt is bounded.
	Charged int64 `json:"charged"`
	// NotSent is why a store did not get the settlement, or rejected it. Nothing was settled,
	// and it may be sent again. An engine sends it again when the store is available.
	NotSent error `json:"-"`
	// Level has the clock that settled and the states of the bands after the settlement, for
	// warnings. It is nil if the take has neither a quota nor a sliding window.
	Level *Result `json:"-"`
}

// SettleError joins the error of a Settle with the reasons in [Settlement.NotSent].
func SettleError(settled []Settlement, err error) error {
	errs := []error{err}
	for i := range settled {
		errs = append(errs, settled[i].NotSent)
	}
	return errors.Join(errs...)
}

// Takes are the bucket sets that were taken from for one request.
type Takes []Taken

// NewTakes returns the takes that a Take granted.
func NewTakes(demands []Demand, out *Outcome) Takes {
	var takes Takes
	for i := range demands {
		d, result := &demands[i], &out.Results[i]
		if result.Granted == 0 {
			continue
		}
		if takes == nil {
			takes = make(Takes, 0, len(demands)-i)
		}
		taken := Taken{
			Key: d.Key, Bands: d.Bands, Holder: d.Holder,
			Cost: result.Granted, Asked: result.Granted, Source: result.Source, At: result.Now,
		}
		if d.Overdraft || d.CountsRefused() {
			taken.Asked = d.Cost
		}
		if result.Wait > 0 || slices.ContainsFunc(d.Bands, bucket.IsQuota) {
			taken.Due = make([]int64, len(result.Bands))
			for j := range result.Bands {
				taken.Due[j] = d.Due(j, result)
			}
		}
		takes = append(takes, taken)
	}
	return takes
}

// Due returns when the tokens of a band were due, and for a quota when its period ends. An
// unused quota is full now, a quota in debt at the end of a later period.
func (d *Demand) Due(j int, r *Result) int64 {
	band := &r.Bands[j]
	switch {
	case !bucket.IsQuota(d.Bands[j]) && d.Overdraft:
		return r.Now // debited at once: the wait is that of the next one
	case !bucket.IsQuota(d.Bands[j]):
		return r.Now + band.Wait.Microseconds()
	case band.FullAfter == 0 || band.Owed > 0 && !d.CountsRefused():
		return d.Bands[j].EdgeAfter(r.Now)
	}
	return r.Now + band.FullAfter.Microseconds()
}

// Withdrawal returns the takes to give back if the request is rejected: those that
// a Take granted, without those that are [Demand.Debited].
func Withdrawal(demands []Demand, out *Outcome) Takes {
	return slices.DeleteFunc(NewTakes(demands, out), func(t Taken) bool {
		i := slices.IndexFunc(demands, func(d Demand) bool { return d.Key.ID == t.Key.ID })
		return demands[i].Debited(out.Results[i].Status)
	})
}

// Same returns one actual cost for all takes, as [Store.Settle] expects it.
func (t Takes) Same(actual int64) []int64 { return slices.Repeat([]int64{actual}, len(t)) }

// maxTakes bounds the takes of one settlement. A store may split each of MaxMatches.
const maxTakes = 4 * MaxMatches

// CheckTakes returns an error for takes that no store can settle, for costs that are negative
// or above MaxCost, and if the number of costs is not that of the takes. Stores call it first.
func CheckTakes(takes Takes, actual []int64) error {
	if len(takes) == 0 || len(takes) > maxTakes || len(actual) != len(takes) {
		return fmt.Errorf("%w: %d actual costs for %d takes", ErrDemand, len(actual), len(takes))
	}
	for i := range takes {
		t := &takes[i]
		if n := len(t.Bands); n == 0 || n > MaxBands || len(t.Due) > n {
			return fmt.Errorf("%w: %d bands, of which %d are due later", ErrDemand, n, len(t.Due))
		}
		for _, cost := range [...]int64{t.Cost, t.Asked, actual[i]} {
			if cost < 0 || cost > MaxCost {
				return errCost(cost)
			}
		}
	}
	return nil
}

// MergeSettlements returns the settlement of the take that changed least, without its level.
func MergeSettlements(each []Settlement) Settlement {
	if len(each) == 0 {
		return Settlement{}
	}
	least := each[0]
	least.Level = nil
	for _, s := range each[1:] {
		least.Returned = min(least.Returned, s.Returned)
		least.Charged = min(least.Charged, s.Charged)
	}
	return least
}
