package wire

import (
	"errors"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate"
)

// valid reports whether JSON can carry the texts as they are. It would replace
// invalid UTF-8, and two callers could become one.
func (w *Request) valid() bool {
	unchanged := *w
	return unchanged.each(func(text string) (string, error) {
		if !utf8.ValidString(text) {
			return "", errNotUTF8
		}
		return text, nil
	}) == nil
}

var errNotUTF8 = errors.New("not UTF-8")

// each replaces every text. Maps and lists are replaced, not changed.
func (w *Request) each(change func(string) (string, error)) error {
	var failed error
	changed := func(text string) string {
		text, err := change(text)
		if err != nil {
			failed = err
		}
		return text
	}
	for _, text := range w.texts() {
		*text = changed(*text)
	}
	if len(w.Headers) > 0 {
		headers := make(map[string][]string, len(w.Headers))
		for name, values := range w.Headers {
			all := make([]string, len(values))
			for i, value := range values {
				all[i] = changed(value)
			}
			headers[changed(name)] = all
		}
		w.Headers = headers
	}
	if len(w.Attributes) > 0 {
		attributes := make(map[string]string, len(w.Attributes))
		for name, value := range w.Attributes {
			attributes[changed(name)] = changed(value)
		}
		w.Attributes = attributes
	}
	if len(w.Descriptor) > 0 {
		descriptor := make([]fluxgate.DescriptorEntry, len(w.Descriptor))
		for i, e := range w.Descriptor {
			descriptor[i] = fluxgate.DescriptorEntry{Key: changed(e.Key), Value: changed(e.Value)}
		}
		w.Descriptor = descriptor
	}
	return failed
}

// fromBytes writes each byte as the character with its number.
func fromBytes(text string) (string, error) {
	runes := make([]rune, len(text))
	for i := range len(text) {
		runes[i] = rune(text[i])
	}
	return string(runes), nil
}

// toBytes reverses fromBytes.
func toBytes(text string) (string, error) {
	b := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff {
			return "", errors.New("bytes: a text has a character above U+00FF")
		}
		b = append(b, byte(r))
	}
	return string(b), nil
}
