package cli

import (
	"io"
	"time"
)

// progress counts the bytes that are written to it in a line on a terminal. On anything else
// it shows nothing.
type progress struct {
	out     io.Writer
	visible bool
	bytes   int64
	shown   time.Time
}

func newProgress(out io.Writer) *progress {
	return &progress{out: out, visible: isTerminal(out), shown: time.Now()}
}

const progressInterval = 200 * time.Millisecond

func (p *progress) Write(b []byte) (int, error) {
	p.bytes += int64(len(b))
	if now := time.Now(); p.visible && now.Sub(p.shown) >= progressInterval {
		p.shown = now
		printf(p.out, "\r\x1b[K%d MB read", p.bytes/1_000_000)
	}
	return len(b), nil
}

// clear removes the line.
func (p *progress) clear() {
	if p.visible {
		printf(p.out, "\r\x1b[K")
	}
}
