package cli

import (
	"io"
	"time"
)

// progress is a line on a terminal. On anything else it shows nothing.
type progress struct {
	out         io.Writer
	visible     bool
	start, last time.Time
	shown       bool
}

func newProgress(out io.Writer) *progress {
	now := time.Now()
	return &progress{out: out, visible: isTerminal(out), start: now, last: now}
}

const progressInterval = 200 * time.Millisecond

// show writes how many requests were decided, at most a few times a second.
func (p *progress) show(requests int64) {
	if now := time.Now(); p.visible && now.Sub(p.last) >= progressInterval {
		p.last, p.shown = now, true
		printf(p.out, "\r\x1b[K%d requests, %.0f a second", requests, float64(requests)/now.Sub(p.start).Seconds())
	}
}

// clear removes the line.
func (p *progress) clear() {
	if p.shown {
		printf(p.out, "\r\x1b[K")
	}
}
