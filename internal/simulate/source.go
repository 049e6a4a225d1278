package simulate

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

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
	format formatter
	entry  *entry
	// progress is called every few thousand lines, if it is not nil.
	progress func()

	latest     int64 // the furthest time so far
	latestLine int64
}

// progressEvery is after how many lines progress is reported.
const progressEvery = 4_096

// gzipMagic is how a gzip file begins.
const gzipMagic = "\x1f\x8b"

// newSource decompresses what begins like a gzip file.
func newSource(in Input, format formatter) *source {
	s := &source{log: Log{Name: in.Name}, format: format, entry: new(entry)}
	plain := bufio.NewReader(in.Reader)
	var text io.Reader = plain
	if magic, _ := plain.Peek(len(gzipMagic)); string(magic) == gzipMagic {
		unpacked, err := gzip.NewReader(plain)
		if err != nil {
			s.fail(err)
			text = strings.NewReader("")
		} else {
			text = unpacked
		}
	}
	s.lines = newLineReader(text)
	return s
}

// next reads up to the next line that is a request, and reports whether there is one.
// Its time is at least that of the request before it.
func (s *source) next() bool {
	for {
		line, err := s.lines.next()
		s.log.Lines = s.lines.number
		if s.progress != nil && s.log.Lines%progressEvery == 0 {
			s.progress()
		}
		switch {
		case err == nil:
			err = s.format.parse(line, s.entry)
		case !errors.Is(err, errLong):
			s.end(err)
			return false
		}
		if err == nil {
			s.log.Requests++
			s.order()
			return true
		}
		s.skip(line, err)
	}
}

// order gives a request that is earlier than one before it the time of that one: tokens
// must not come back twice.
func (s *source) order() {
	back := s.latest - s.entry.micros
	if back <= 0 {
		s.latest, s.latestLine = s.entry.micros, s.lines.number
		return
	}
	s.entry.micros = s.latest
	if s.log.SteppedBack == nil {
		s.log.SteppedBack = &StepsBack{}
	}
	steps := s.log.SteppedBack
	steps.Lines++
	if seconds := float64(back) / second; seconds > steps.LongestSeconds {
		*steps = StepsBack{steps.Lines, seconds, s.lines.number, s.latestLine}
	}
}

// query is the query of a path, which may have secrets in it.
var query = regexp.MustCompile(`\?[^ "]*`)

// skip counts a line that cannot be used.
func (s *source) skip(line string, why error) {
	if errors.Is(why, errLong) {
		s.log.TooLong++
	} else {
		s.log.Unparsed++
	}
	if s.log.FirstSkipped != nil {
		return
	}
	first := &SkippedLine{Line: s.lines.number, Reason: why.Error()}
	if !s.format.fields.hasSecrets() {
		first.Text = printable.Line(query.ReplaceAllString(line, "?…"), 160)
	}
	s.log.FirstSkipped = first
}

// end notes why a log has ended before its end.
func (s *source) end(err error) {
	if s.log.Format = string(s.format.format); s.format.format == Auto {
		s.log.Format = "unknown"
	}
	if !errors.Is(err, io.EOF) {
		s.fail(err)
	}
}

func (s *source) fail(err error) {
	if s.log.Problem == "" {
		s.log.Problem = fmt.Sprintf("cannot be read beyond line %d: %v", s.log.Lines, err)
	}
}
