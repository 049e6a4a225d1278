package simulate

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// Lines are the same however the stream is cut into reads.
func TestLineReader_Reads_NoRace(t *testing.T) {
	long, most := strings.Repeat("x", maxLine+1), strings.Repeat("y", maxLine)
	giant := strings.Repeat("z", 2*4*maxLine)
	const dropped = "(too long)"
	for _, c := range []struct {
		name   string
		stream io.Reader
		want   []string
	}{
		{"nothing", strings.NewReader(""), nil},
		{"without an end", strings.NewReader("a\r\n\nb"), []string{"a", "", "b"}},
		{"byte by byte", iotest.OneByteReader(strings.NewReader("a\nbc\n\nd\n")), []string{"a", "bc", "", "d"}},
		{"the longest", strings.NewReader(most + "\n" + long + "\n" + most), []string{most, dropped, most}},
		{"a long one begins behind others", io.MultiReader(strings.NewReader("a\n"+long), strings.NewReader("\nb\n")), []string{"a", dropped, "b"}},
		{"giants", strings.NewReader(giant + "\na\n" + giant), []string{dropped, "a", dropped}},
		{"a giant byte by byte", iotest.OneByteReader(strings.NewReader(long + "\na")), []string{dropped, "a"}},
	} {
		l, got := newLineReader(c.stream), []string(nil)
		for {
			line, err := l.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if errors.Is(err, errLong) {
				line = dropped
			}
			got = append(got, line)
		}
		if !slices.Equal(got, c.want) || l.number != int64(len(c.want)) {
			t.Errorf("%s: %d lines, want %d", c.name, len(got), len(c.want))
		}
	}
}

// What precedes a failure is returned, but for the line that it cuts.
func TestLineReader_Failure(t *testing.T) {
	l := newLineReader(io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	if line, err := l.next(); line != "a" || err != nil {
		t.Errorf("%q, %v", line, err)
	}
	for range 2 {
		if line, err := l.next(); line != "" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q, %v", line, err)
		}
	}
}
