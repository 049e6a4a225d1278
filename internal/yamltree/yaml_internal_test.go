package yamltree

import (
	"strings"
	"testing"
	"time"
)

// A long line is read once, not once for each piece that the parser asks for.
func TestLineReader_LongLine(t *testing.T) {
	const size = 64 << 20
	input := lineReader(strings.Repeat("x", size))
	piece := make([]byte, 512)
	for start := time.Now(); input != ""; {
		if _, err := input.Read(piece); err != nil {
			t.Fatal(err)
		}
		if time.Since(start) > 10*time.Second {
			t.Fatalf("%d of %d bytes are read after 10s", size-len(input), size)
		}
	}
}

// Lines are read one at a time, so that the parser does not read far beyond an
// error.
func TestLineReader_Lines(t *testing.T) {
	input := lineReader("first\n\nthird")
	piece := make([]byte, 512)
	for _, want := range []string{"first\n", "\n", "third"} {
		if n, err := input.Read(piece); err != nil || string(piece[:n]) != want {
			t.Errorf("read %q, %v; want %q", piece[:n], err, want)
		}
	}
}
