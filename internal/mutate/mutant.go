package main

import (
	"bytes"
	"fmt"
	"log"
	"slices"
	"strings"
)

// change names a change in a way that survives edits elsewhere in the file.
type change struct {
	file string
	what string // "< becomes <=", or "< becomes <= (2)" for another one in the line
	line string // the line before the change, without indentation
}

// mutant is one change of a file: text in place of the bytes from start to end.
type mutant struct {
	change
	number     int // of the line
	start, end int
	text       string
}

// apply is a file with the change.
func (m mutant) apply(source []byte) []byte {
	return slices.Concat(source[:m.start], []byte(m.text), source[m.end:])
}

// list collects the changes of a file.
type list struct {
	file    string
	source  []byte
	mutants []mutant
}

func (l *list) add(start, end int, text, what string) {
	what, _, _ = strings.Cut(what, "\n")
	number := 1 + bytes.Count(l.source[:start], []byte("\n"))
	first := 1 + bytes.LastIndexByte(l.source[:start], '\n')
	line, _, _ := bytes.Cut(l.source[first:], []byte("\n"))
	c, same := change{l.file, what, string(bytes.TrimSpace(line))}, 1
	for _, m := range l.mutants {
		if m.number == number && (m.what == what || strings.HasPrefix(m.what, what+" (")) {
			same++
		}
	}
	if same > 1 {
		c.what = fmt.Sprintf("%s (%d)", what, same)
	}
	l.mutants = append(l.mutants, mutant{c, number, start, end, text})
}

// replace adds a change of one piece of text to another.
func (l *list) replace(start, end int, text string) {
	l.add(start, end, text, string(l.source[start:end])+" becomes "+text)
}

func hasChange(mutants []mutant, c change) bool {
	return slices.ContainsFunc(mutants, func(m mutant) bool { return m.change == c })
}

// parseAccepted reads the changes that no test can notice. An entry is a line with file and
// change, a line with the source, and lines with the reason; an empty line ends it, and
// lines that begin with # are comments.
func parseAccepted(text string) map[change]string {
	accepted := map[change]string{}
	for entry := range strings.SplitSeq(text, "\n\n") {
		var lines []string
		for line := range strings.Lines(entry) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			continue
		}
		file, what, ok := strings.Cut(lines[0], ": ")
		if !ok || len(lines) < 3 {
			log.Fatalf("accepted.txt: an entry has a line with file and change, the source line and a reason, not\n%s", entry)
		}
		accepted[change{file, what, lines[1]}] = strings.Join(lines[2:], " ")
	}
	return accepted
}
