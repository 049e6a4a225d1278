package main

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// step is how often the level is read, in seconds, as all times are. Every moment of a
// script, and of the slots of a sliding window, is a multiple of it.
const step = 0.25

// call is one request or more at a moment. They take a time, and are settled afterwards
// unless they are killed.
type call struct {
	at, takes float64
	requests  int
	killed    bool
}

// answer is the decision about one request.
type answer struct {
	call
	fluxgate.Decision
	renewed []float64
}

// level is how many tokens are left at a moment.
type level struct{ at, left float64 }

// stepTo appends a level that is reached at once.
func stepTo(levels []level, at, left float64) []level {
	if n := len(levels); n > 0 {
		levels = append(levels, level{at, levels[n-1].left})
	}
	return append(levels, level{at, left})
}

// history is what happened to the requests of a script.
type history struct {
	band    rules.Band
	length  float64
	answers []answer
	levels  []level
}

// play sends the requests of a script to an engine.
func play(band rules.Band, length float64, script []call) *history {
	now := 0.0
	// An engine computes the edges of periods by the clock of the machine. Those of
	// minutes in UTC are the same whenever the pictures are drawn.
	midnight := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return midnight.Add(time.Duration(now * float64(time.Second))) }
	store := fluxgate.Must(memstore.New(memstore.Config{Clock: clock}))
	set := fluxgate.Must(rules.NewSet("pictures", rules.Rule{ID: "one", Bands: []rules.Band{band}}))
	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(set)))
	ctx := context.Background()
	h := &history{band: band, length: length}
	read := func() {
		d := fluxgate.Must(engine.Check(ctx, &fluxgate.Request{Peek: true}))
		if band.Kind != "" {
			h.levels = stepTo(h.levels, now, float64(d.Remaining))
			return
		}
		used := float64(band.Tokens()) * d.ResetAfter.Seconds() / band.Refill.Seconds() // with parts of tokens
		h.levels = append(h.levels, level{now, float64(band.Capacity) - used})
	}
	for ; now <= length; now += step {
		read()
		for i := range h.answers {
			switch a, since := &h.answers[i], now-h.answers[i].at; {
			case !a.Allowed || a.takes == 0:
			case since == a.takes && !a.killed:
				fluxgate.Must(engine.Settle(ctx, a.Receipt(), 1))
			case since < a.takes && math.Mod(since, band.Hold.Seconds()/2) == 0:
				a.renewed = append(a.renewed, fluxgate.Must(now, engine.Extend(ctx, a.Receipt())))
			}
		}
		for _, c := range script {
			for n := 0; c.at == now && n < max(1, c.requests); n++ {
				h.answers = append(h.answers, answer{call: c, Decision: fluxgate.Must(engine.Check(ctx, &fluxgate.Request{}))})
			}
		}
		read()
	}
	return h
}

// admitted is how many requests were admitted in the minute from a moment on.
func (h *history) admitted(from float64) (n int) {
	for _, a := range h.answers {
		if a.Allowed && a.at >= from && a.at < from+60 {
			n++
		}
	}
	return n
}

// busiest is the start of the minute in which most requests were admitted.
func (h *history) busiest() float64 {
	return slices.MaxFunc(h.answers, func(a, b answer) int { return h.admitted(a.at) - h.admitted(b.at) }).at
}
