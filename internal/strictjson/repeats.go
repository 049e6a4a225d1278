package strictjson

import "bytes"

const (
	// openNames bounds how many names are compared byte by byte, and openObjects how deep objects are.
	openNames   = 32
	openObjects = 16
)

// Repeats is [Check] for the path of a request: it does not allocate if the open objects of the text
// have few names, without escapes.
func Repeats(text []byte) error {
	if surely, unsure := repeats(text); surely || unsure {
		return Check(text)
	}
	return nil
}

// repeats reports whether an object of a valid text has a name twice, or whether that is unsure.
func repeats(text []byte) (surely, unsure bool) {
	var names [openNames]struct{ from, to int32 }
	var firsts [openObjects]int // the first name of each open object
	depth, count := 0, 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{':
			if depth >= len(firsts) {
				return false, true
			}
			firsts[depth] = count
			depth++
		case '}':
			if depth == 0 {
				return false, true
			}
			depth--
			count = firsts[depth] //nolint:gosec // depth is below len(firsts)
		case '"':
			from, escaped := i+1, false
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					escaped = true
					i++
				}
			}
			if !isName(text, i) {
				continue
			}
			if escaped || depth == 0 || count >= len(names) {
				return false, true
			}
			for _, other := range names[firsts[depth-1]:count] { //nolint:gosec // depth is 1 to len(firsts)
				if bytes.Equal(text[from:i], text[other.from:other.to]) {
					return true, false
				}
			}
			names[count].from, names[count].to = int32(from), int32(i)
			count++
		}
	}
	return false, false
}

// isName reports whether a colon follows the string that ends at a place.
func isName(text []byte, end int) bool {
	for i := end + 1; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\r', '\n':
		default:
			return text[i] == ':'
		}
	}
	return false
}
