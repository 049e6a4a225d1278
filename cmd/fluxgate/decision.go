package main

import (
	"fmt"
	"io"
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

// printBands has a row for each band.
func printBands(out io.Writer, bands []wire.Band) error {
	t := newTable(out, "RULE", "BAND", "LEFT", "OF", "FULL IN")
	for i := range bands {
		t.row(bandCells(&bands[i])...)
	}
	return t.flush()
}

func bandCells(b *wire.Band) []any {
	cells := []any{b.Rule, bandName(b), b.Remaining, b.Limit, ceilSecond(span(b.FullAfterMs))}
	if b.Shadow {
		cells = append(cells, "shadow")
	}
	return cells
}

// bandName is the label of a band, or what it goes by without one.
func bandName(b *wire.Band) string {
	band := fluxgate.Band{Label: b.Label, Capacity: b.Capacity, RefillTokens: b.RefillTokens, Refill: span(b.RefillMs)}
	return band.Name()
}

func span(m wire.Millis) time.Duration { return time.Duration(m) * time.Microsecond }
