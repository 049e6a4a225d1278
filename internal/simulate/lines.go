package simulate

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// maxLine is how long a line may be. Longer ones are counted and skipped.
const maxLine = 65_536

// bufferSize is room for the longest line and its end.
const bufferSize = maxLine + len("\n")

// lineReader cuts a stream into lines.
type lineReader struct {
	r      *bufio.Reader
	number int64 // of the last line that was returned
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, bufferSize)}
}

// next returns the next line without its end. The error is errLong for a line that is too
// long, and else that of the stream. What precedes a failure is not a line.
func (l *lineReader) next() (string, error) {
	line, err := l.r.ReadSlice('\n')
	long := errors.Is(err, bufio.ErrBufferFull)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.r.ReadSlice('\n')
	}
	if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
		return "", err
	}
	l.number++
	if long {
		return "", errLong
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), nil
}
