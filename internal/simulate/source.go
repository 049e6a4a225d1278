package simulate

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/internal/printable"
)

// Input is a log to read.
type Input struct {
	Name string
	io.Reader
}

// source reads the entries of one log.
type source struct {
	log    Log
	lines  *lineReader
	fields jsonFields
	entry  *entry    // the next one, or nil at the end
	latest time.Time // the furthest time so far
}

// openLogs reads up to the first entry of each log.
func openLogs(logs []Input, mapping []string) (sources []*source, err error) {
	fields, err := newJSONFields(mapping)
	if err != nil {
		return nil, err
	}
	for _, in := range logs {
		text, err := unpack(in.Reader)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", in.Name, err)
		}
		s := &source{log: Log{Name: in.Name}, lines: newLineReader(text), fields: fields, entry: new(entry)}
		if err := s.next(); err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// earliest is the source with the earliest entry, or nil at the end. It brings rotated files
// and the logs of several servers into one order.
func earliest(sources []*source) (first *source) {
	for _, s := range sources {
		if s.entry != nil && (first == nil || s.entry.at.Before(first.entry.at)) {
			first = s
		}
	}
	return first
}

// next reads up to the next line that is a request. Its time is at least that of the request
// before it.
func (s *source) next() error {
	for {
		line, err := s.lines.next()
		s.log.Lines = s.lines.number
		switch {
		case err == nil:
			err = s.parse(line)
		case errors.Is(err, io.EOF):
			s.entry = nil
			return nil
		case !errors.Is(err, errLong):
			return fmt.Errorf("%s: cannot be read beyond line %d: %w", s.log.Name, s.log.Lines, err)
		}
		if err == nil {
			s.log.Requests++
			s.order()
			return nil
		}
		s.skip(line, err)
	}
}

// parse parses a line into the entry, which may refer to the line.
func (s *source) parse(line string) error {
	*s.entry = entry{}
	if isJSON(line) {
		return s.fields.parse(line, s.entry)
	}
	return parseCombined(line, s.entry)
}

func isJSON(line string) bool { return strings.HasPrefix(line, "{") }

// order gives a request that is earlier than one before it the time of that one: tokens
// must not come back twice.
func (s *source) order() {
	if s.entry.at.Before(s.latest) {
		s.entry.at = s.latest
		s.log.OutOfOrder++
	}
	s.latest = s.entry.at
}

// query is the query of a path, which may have secrets in it.
var query = regexp.MustCompile(`\?[^ "]*`)

// skip counts a line that cannot be used.
func (s *source) skip(line string, why error) {
	s.log.Skipped++
	if s.log.FirstSkipped != nil {
		return
	}
	s.log.FirstSkipped = &SkippedLine{Line: s.lines.number, Reason: why.Error()}
	if !isJSON(line) && utf8.ValidString(line) {
		s.log.FirstSkipped.Text = printable.Line(query.ReplaceAllString(line, "?…"), 160)
	}
}
