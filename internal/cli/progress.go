package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress is a bar on a terminal. On anything else it shows nothing.
type progress struct {
	out     io.Writer
	visible bool
	start   time.Time
	last    time.Time
	shown   bool

	done, total int64
	unknown     bool // how much there is, because of standard input
}

func newProgress(out io.Writer) *progress {
	now := time.Now()
	return &progress{out: out, visible: isTerminal(out), start: now, last: now}
}

// countedFile counts what is read from a file.
type countedFile struct {
	*os.File
	bar *progress
}

func (f countedFile) Read(b []byte) (int, error) {
	n, err := f.File.Read(b)
	f.bar.done += int64(n)
	return n, err
}

// of returns the file with its bytes counted. Of a pipe it is not known how many come.
func (p *progress) of(file *os.File, info os.FileInfo) io.ReadCloser {
	p.total += info.Size()
	p.unknown = p.unknown || !info.Mode().IsRegular()
	return countedFile{file, p}
}

const (
	progressInterval = 200 * time.Millisecond
	progressWidth    = 30
)

// show draws the bar, at most a few times a second.
func (p *progress) show(requests int64) {
	if now := time.Now(); p.visible && now.Sub(p.last) >= progressInterval {
		p.last, p.shown = now, true
		printf(p.out, "\r\x1b[K%s", p.line(requests, now.Sub(p.start)))
	}
}

func (p *progress) line(requests int64, elapsed time.Duration) string {
	text := fmt.Sprintf("%d requests, %.0f a second", requests, float64(requests)/elapsed.Seconds())
	if p.unknown || p.total == 0 {
		return text
	}
	share := min(1, float64(p.done)/float64(p.total))
	filled := int(share * progressWidth)
	return fmt.Sprintf("[%s%s] %3.0f%% %s", strings.Repeat("█", filled), strings.Repeat("░", progressWidth-filled), 100*share, text)
}

// clear removes the bar.
func (p *progress) clear() {
	if p.shown {
		printf(p.out, "\r\x1b[K")
	}
}
