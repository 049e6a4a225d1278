package simulate

import "strings"

// jsonScanner reads one JSON object and keeps the values of the fields that are wanted.
// It accepts exactly what encoding/json does, and allocates nothing.
type jsonScanner struct {
	text   string
	at     int
	fields []jsonField
	values []jsonValue // one for each field
}

// jsonValue is a value as it is written: a string without its quotes.
type jsonValue struct {
	text    string
	escaped bool // a string with escapes
}

// maxDepth bounds how deeply values are nested. It is that of encoding/json.
const maxDepth = 10_000

// scan reads the object.
func (s *jsonScanner) scan() bool {
	s.space()
	if !s.has('{') || !s.object(1<<len(s.fields)-1, 0, 1) {
		return false
	}
	s.space()
	return s.at == len(s.text)
}

// object reads what follows the opening brace. wanted are the fields that may be in it;
// the beginnings of their paths, so long as offset, lead here.
func (s *jsonScanner) object(wanted uint64, offset, depth int) bool {
	if s.space(); s.has('}') {
		return true
	}
	for {
		s.space()
		key, ok := s.string()
		if s.space(); !ok || !s.has(':') {
			return false
		}
		if !s.member(key, wanted, offset, depth) {
			return false
		}
		if s.space(); s.has('}') {
			return true
		}
		if !s.has(',') {
			return false
		}
	}
}

// member reads the value of a key.
func (s *jsonScanner) member(key jsonValue, wanted uint64, offset, depth int) bool {
	if wanted == 0 || key.escaped { // no field has a name that needs escapes
		_, ok := s.value(0, 0, depth)
		return ok
	}
	var here, below uint64
	for i := range s.fields {
		if wanted&(1<<i) == 0 {
			continue
		}
		path := s.fields[i].path[offset:]
		switch {
		case len(path) == len(key.text) && path == key.text:
			here |= 1 << i
		case len(path) > len(key.text) && path[len(key.text)] == '.' && strings.HasPrefix(path, key.text):
			below |= 1 << i
		}
	}
	value, ok := s.value(below, offset+len(key.text)+1, depth)
	for i := 0; here != 0 && i < len(s.fields); i++ {
		if here&(1<<i) != 0 {
			s.values[i] = value
		}
	}
	return ok
}

// value reads a value. It returns that of a string or a number, and nothing for others.
func (s *jsonScanner) value(wanted uint64, offset, depth int) (v jsonValue, ok bool) {
	s.space()
	if s.at == len(s.text) {
		return v, false
	}
	switch s.text[s.at] {
	case '{':
		s.at++
		return v, depth < maxDepth && s.object(wanted, offset, depth+1)
	case '[':
		s.at++
		return v, depth < maxDepth && s.array(depth+1)
	case '"':
		return s.string()
	case 't':
		return jsonValue{text: "true"}, s.word("true")
	case 'f':
		return jsonValue{text: "false"}, s.word("false")
	case 'n':
		return v, s.word("null")
	}
	begin := s.at
	ok = s.number()
	return jsonValue{text: s.text[begin:s.at]}, ok
}

func (s *jsonScanner) array(depth int) bool {
	if s.space(); s.has(']') {
		return true
	}
	for {
		if _, ok := s.value(0, 0, depth); !ok {
			return false
		}
		if s.space(); s.has(']') {
			return true
		}
		if !s.has(',') {
			return false
		}
	}
}

// string reads a string with its quotes.
func (s *jsonScanner) string() (v jsonValue, ok bool) {
	if !s.has('"') {
		return v, false
	}
	begin := s.at
	for s.at < len(s.text) {
		switch c := s.text[s.at]; {
		case c == '"':
			v.text = s.text[begin:s.at]
			s.at++
			return v, true
		case c == '\\':
			v.escaped = true
			if !s.escape() {
				return v, false
			}
		case c < ' ':
			return v, false
		default:
			s.at++
		}
	}
	return v, false
}

// escape reads a backslash and what it escapes.
func (s *jsonScanner) escape() bool {
	s.at++
	if s.at == len(s.text) {
		return false
	}
	c := s.text[s.at]
	s.at++
	if c != 'u' {
		return strings.IndexByte(`"\/bfnrt`, c) >= 0
	}
	for range 4 {
		if s.at == len(s.text) || strings.IndexByte("0123456789abcdefABCDEF", s.text[s.at]) < 0 {
			return false
		}
		s.at++
	}
	return true
}

func (s *jsonScanner) number() bool {
	s.has('-')
	if !s.has('0') && !s.digits() {
		return false
	}
	if s.has('.') && !s.digits() {
		return false
	}
	if s.has('e') || s.has('E') {
		if !s.has('+') {
			s.has('-')
		}
		return s.digits()
	}
	return true
}

// digits reads at least one digit.
func (s *jsonScanner) digits() bool {
	begin := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > begin
}

func (s *jsonScanner) word(word string) bool {
	if !strings.HasPrefix(s.text[s.at:], word) {
		return false
	}
	s.at += len(word)
	return true
}

func (s *jsonScanner) has(c byte) bool {
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *jsonScanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}
