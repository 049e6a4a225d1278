package main

import (
	"io"
	"os"

	"github.com/fluxgate/fluxgate/server"
)

// colours are those of a terminal.
var colours = map[server.Verdict]string{server.Good: "\x1b[32m", server.Watch: "\x1b[33m", server.Wrong: "\x1b[31m"}

// painter colours a text on a terminal, unless NO_COLOR is set.
func painter(out io.Writer) func(server.Verdict, string) string {
	if !isTerminal(out) || os.Getenv("NO_COLOR") != "" {
		return func(_ server.Verdict, text string) string { return text }
	}
	return func(v server.Verdict, text string) string { return colours[v] + text + "\x1b[0m" }
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
