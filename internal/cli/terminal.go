package cli

import (
	"context"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// defaultWidth is the width of output that is not a terminal, unless COLUMNS is set.
const defaultWidth = 80

// terminalSize is the size of a terminal. Other streams have no height. A stream
// that is not a file may implement Size.
func terminalSize(stream any) (width, height int) {
	if s, ok := stream.(interface{ Size() (int, int) }); ok {
		return s.Size()
	}
	if file, ok := stream.(*os.File); ok {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		return width, 0
	}
	return defaultWidth, 0
}

// The sequences of a terminal: enter and leave the alternate screen, without a
// cursor and without wrapping lines.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// fullScreen is the alternate screen of a terminal.
type fullScreen struct {
	out   io.Writer
	paint func(colour, string) string
	shown string
}

// openScreen enters the alternate screen. If standard input is a terminal, quit is
// called on q and ctrl-C, which is a key then and not a signal. restore undoes both.
func openScreen(in io.Reader, out io.Writer, quit context.CancelFunc) (screen *fullScreen, restore func(), err error) {
	restoreInput := func() {}
	if file, ok := in.(*os.File); ok && isTerminal(file) {
		before, err := term.MakeRaw(int(file.Fd()))
		if err != nil {
			return nil, nil, err
		}
		restoreInput = func() { _ = term.Restore(int(file.Fd()), before) }
	}
	if isTerminal(in) {
		go readKeys(in, quit)
	}
	restore = func() {
		_, _ = io.WriteString(out, leaveScreen)
		restoreInput()
	}
	if _, err := io.WriteString(out, enterScreen); err != nil {
		restore()
		return nil, nil, err
	}
	return &fullScreen{out: out, paint: painter(out)}, restore, nil
}

// readKeys ends with the input, or with the process: reading from a terminal cannot
// be interrupted.
func readKeys(in io.Reader, quit func()) {
	var keys [64]byte
	for {
		n, err := in.Read(keys[:])
		if strings.ContainsAny(string(keys[:n]), "qQ\x03") {
			quit()
			return
		}
		if err != nil {
			return
		}
	}
}

// draw shows the lines, unless they are on the screen already. A line is cleared before
// it is written: at the end of a full line the cursor is still on its last character.
func (s *fullScreen) draw(lines []topLine, height int, resized bool) error {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i := range max(height, len(lines)) {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("\x1b[K")
		if i < len(lines) {
			b.WriteString(s.paint(lines[i].colour, lines[i].text))
		}
	}
	if b.String() == s.shown && !resized {
		return nil
	}
	s.shown = b.String()
	_, err := io.WriteString(s.out, s.shown)
	return err
}
