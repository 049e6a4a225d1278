package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/wire"
)

// printVerdict says in a line what was decided.
func printVerdict(out io.Writer, d *wire.Decision) error {
	paint := painter(out)
	verdict := paint(green, "allowed")
	if !d.Allowed {
		verdict = paint(red, "refused")
	}
	text := fmt.Sprintf("%s (%s)", verdict, legible(string(d.Reason), maxCell))
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
	columns := []string{"RULE", "BAND", "LEFT", "OF", "FULL IN"}
	shadow := slices.ContainsFunc(bands, func(b wire.Band) bool { return b.Shadow })
	if shadow {
		columns = append(columns, "MODE")
	}
	t := newTable(out, columns...)
	for i := range bands {
		b := &bands[i]
		cells := []any{b.Rule, bandName(b), b.Remaining, b.Limit, ceilSecond(span(b.FullAfterMs))}
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

// bandName is the label of a band, or what it goes by without one.
func bandName(b *wire.Band) string {
	band := fluxgate.Band{Label: b.Label, Capacity: b.Capacity, RefillTokens: b.RefillTokens, Refill: span(b.RefillMs)}
	return band.Name()
}

func span(m wire.Millis) time.Duration { return time.Duration(m) * time.Microsecond }
