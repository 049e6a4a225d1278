package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/amount"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// writeDecision writes a decision: a line with the result and a row for each
// band. held introduces the time that a request waits.
func writeDecision(out io.Writer, d *wire.Decision, held string) {
	paint := painter(out)
	verdict := paint(green, "allowed")
	if !d.Allowed {
		verdict = paint(red, "rejected")
	}
	text := fmt.Sprintf("%s (%s)", verdict, printable.Line(string(d.Reason), maxCell))
	if d.Reason == fluxgate.ReasonNoRule && len(d.Bands) > 0 {
		text += ", only shadow rules apply"
	}
	if d.WaitMs > 0 {
		text += fmt.Sprintf(", %s %v", held, ceil(d.WaitMs, time.Millisecond))
	}
	if d.RetryAfterMs > 0 {
		text += fmt.Sprintf(", try again in %v", ceil(d.RetryAfterMs, time.Second))
	}
	if d.Degraded {
		text += ", degraded: Redis unavailable"
	}
	if d.Source == store.FromFallback.String() {
		text += ", counted in memory"
	}
	printf(out, "%s\n", text)
	t := newBandTable()
	for i := range d.Bands {
		t.addBand(&d.Bands[i])
	}
	t.write(out)
}

// noteUncounted names the measures of a request that no rule counts: they may be misspelt.
func noteUncounted(errs io.Writer, costs map[string]int64, d *wire.Decision) {
	if d == nil {
		return
	}
	for _, measure := range slices.Sorted(maps.Keys(costs)) {
		if !slices.ContainsFunc(d.Bands, func(b wire.Band) bool { return b.Measure == measure }) {
			printf(errs, "no rule that applies counts %s: its cost has no effect\n", printable.Line(measure, maxCell))
		}
	}
}

// bandTable has a row for each band of a decision.
type bandTable struct{ table }

// newBandTable shows measures, costs, debt and shadow rules only where they are not the default.
func newBandTable() *bandTable {
	return &bandTable{table{
		columns: []string{"RULE", "LIMIT", "COUNTS", "COST", "LEFT", "OWED", "OF", "FULL IN", "MODE"},
		optional: map[string]string{
			"COUNTS": rules.MeasureRequests, "COST": "1", "OWED": "0", "MODE": string(rules.ModeEnforce),
		},
	}}
}

func (t *bandTable) addBand(b *wire.Band) {
	mode := rules.ModeEnforce
	if b.Shadow {
		mode = rules.ModeShadow
	}
	measure := cmp.Or(b.Measure, rules.MeasureRequests)
	var left, full any = amount.Floor(b.Remaining, measure), ceil(b.FullAfterMs, time.Second)
	if b.Status == store.Unavailable.String() || b.Status == store.NotAsked.String() {
		left, full = unknown, unknown
	}
	owed := "0"
	if b.Owed > 0 {
		owed = amount.Ceil(b.Owed, measure)
	}
	cost, limit := amount.Ceil(max(1, b.Cost), measure), amount.Floor(b.Limit, measure)
	t.add(b.Rule, b.Definition().Name(), measure, cost, left, owed, limit, full, mode)
}

// unknown is the cell of a number that the store did not return.
const unknown = "unknown"

// ceil rounds a time up: after it the request fits.
func ceil(m wire.Millis, unit time.Duration) time.Duration {
	return (time.Duration(m)*time.Microsecond + unit - 1).Truncate(unit)
}
