package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
)

// Warning reports that a band of a bucket set has reached a threshold of its capacity.
type Warning struct {
	// ID is the same in all reports of one crossing: receivers deduplicate by it. The store
	// sets it.
	ID string
	// Key names the bucket set.
	Key Key
	// Band is the name of the band in decisions.
	Band string
	// Percent is the threshold, in percent of the capacity.
	Percent int
	// Capacity and Used are those of the band when the threshold was seen, in tokens. Used
	// may be more than the capacity.
	Capacity, Used int64
	// Measure is what the tokens count: requests, tokens of a language model, or a currency.
	Measure string
	// Identity is the caller. It is empty unless the engine names callers in warnings.
	Identity string
	// At is when the threshold was seen. Until Ends there is no other warning of it: the end
	// of the period of a quota, or one period after At. Both are in microseconds, by the
	// clock of the store.
	At, Ends int64
	// Window is true for a sliding window.
	Window bool
	// Place is where the store has the warning. It has no meaning elsewhere.
	Place string `json:"-"`
}

// Identify sets the ID, for the warning of a bucket set with this name in its store. It
// returns the name of the mark under which a store notes that it has the warning: until Ends
// there is one warning for each mark. Stores use it.
func (w *Warning) Identify(bucket string) (mark string) {
	period := w.Ends // each period of a quota has marks of its own
	if w.Window {
		period -= w.At // and windows of each length: two lengths are in use while rules change
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d %d %d", bucket, w.Band, w.Percent, w.Capacity, period))
	mark = hex.EncodeToString(sum[:12])
	if w.ID = mark; w.Window {
		w.ID += "-" + strconv.FormatInt(w.Ends, 36)
	}
	return mark
}
