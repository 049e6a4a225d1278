package cli

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/wire"
)

// printVerdict says in a line what was decided. held is what to say of a
// request that has to wait.
func printVerdict(out io.Writer, d *wire.Decision, held string) error {
	paint := painter(out)
	verdict := paint(green, "allowed")
	if !d.Allowed {
		verdict = paint(red, "refused")
	}
	text := fmt.Sprintf("%s (%s)", verdict, printable.Line(string(d.Reason), maxCell))
	if d.WaitMs > 0 {
		text += fmt.Sprintf(", %s %v", held, ceilMilli(span(d.WaitMs)))
	}
	if d.RetryAfterMs > 0 {
		text += fmt.Sprintf(", try again in %v", ceilSecond(span(d.RetryAfterMs)))
	}
	if d.Degraded {
		text += ", degraded: the store was not asked for every rule"
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// printBands has a row for each band. It says the mode of their rules where one
// of them is only measured.
func printBands(out io.Writer, bands []wire.Band) error {
	owes := owed(bands)
	columns := slices.Concat([]string{"RULE", "BAND"}, leftColumns(owes))
	shadow := slices.ContainsFunc(bands, func(b wire.Band) bool { return b.Shadow })
	if shadow {
		columns = append(columns, "MODE")
	}
	t := newTable(out, columns...)
	for i := range bands {
		b := &bands[i]
		cells := slices.Concat([]any{b.Rule, bandName(b)}, leftCells(b, owes))
		if shadow {
			mode := fluxgate.ModeEnforce
			if b.Shadow {
				mode = fluxgate.ModeShadow
			}
			cells = append(cells, mode)
		}
		t.row(cells...)
	}
	return t.flush()
}

// owed reports whether a band is in debt.
func owed(bands []wire.Band) bool {
	return slices.ContainsFunc(bands, func(b wire.Band) bool { return b.Owed > 0 })
}

// leftColumns are the columns that say what is left, with one for debt where
// there is some. leftCells are their cells.
func leftColumns(owes bool) []string {
	if owes {
		return []string{"LEFT", "OWED", "OF", "FULL IN"}
	}
	return []string{"LEFT", "OF", "FULL IN"}
}

func leftCells(b *wire.Band, owes bool) []any {
	full := ceilSecond(span(b.FullAfterMs))
	if owes {
		return []any{b.Remaining, b.Owed, b.Limit, full}
	}
	return []any{b.Remaining, b.Limit, full}
}

// bandName is the label of a band, or what it goes by without one.
func bandName(b *wire.Band) string {
	band := fluxgate.Band{Label: b.Label, Capacity: b.Capacity, RefillTokens: b.RefillTokens, Refill: span(b.RefillMs)}
	return band.Name()
}

func span(m wire.Millis) time.Duration { return time.Duration(m) * time.Microsecond }
