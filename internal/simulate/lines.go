package simulate

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

const (
	// maxLine is how long a line may be. Longer ones are counted and skipped.
	maxLine = 65_536
	// chunkSize is how much is read at once.
	chunkSize = 4 * maxLine
)

// lineReader cuts a stream into lines. It makes one string of each chunk, of which the
// lines are parts: a line costs no allocation.
type lineReader struct {
	r      io.Reader
	number int64 // of the last line that was returned

	text    string // lines that are complete
	buffer  []byte
	rest    int  // how much of buffer is the beginning of a line
	tooLong bool // the beginning of the line was dropped
	err     error
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: r, buffer: make([]byte, chunkSize)}
}

// next returns the next line without its end. The error is errLong for a line that is too
// long, and else that of the stream.
func (l *lineReader) next() (line string, err error) {
	for l.text == "" {
		if l.err != nil {
			return l.last()
		}
		l.fill()
	}
	line, l.text, _ = strings.Cut(l.text, "\n")
	return l.checked(line)
}

// checked returns a line, or errLong.
func (l *lineReader) checked(line string) (string, error) {
	l.number++
	dropped := l.tooLong
	l.tooLong = false
	if dropped || len(line) > maxLine {
		return "", errLong
	}
	return strings.TrimSuffix(line, "\r"), nil
}

// last returns what is left at the end. What precedes a failure is not a line.
func (l *lineReader) last() (string, error) {
	if !errors.Is(l.err, io.EOF) || l.rest == 0 && !l.tooLong {
		return "", l.err
	}
	line := string(l.buffer[:l.rest])
	l.rest = 0
	return l.checked(line)
}

// fill reads once, and keeps the beginning of a line for the next time.
func (l *lineReader) fill() {
	n, err := l.r.Read(l.buffer[l.rest:])
	l.err = err
	read := l.buffer[:l.rest+n]
	end := bytes.LastIndexByte(read, '\n') + 1
	l.text = string(read[:end])
	l.rest = copy(l.buffer, read[end:])
	if l.rest > maxLine && l.text == "" { // else the lines in text are first
		l.rest, l.tooLong = 0, true
	}
}
