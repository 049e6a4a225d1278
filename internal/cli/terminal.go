package cli

import (
	"os"
	"strconv"

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
