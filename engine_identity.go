package fluxgate

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/internal/keyfield"
	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/internal/secret"
	"github.com/fluxgate/fluxgate/rules"
)

// WriteIdentity writes the identity of the caller whose bucket an evaluated rule counts in,
// such as "user alice", and returns the number of bytes written. It cuts what does not fit,
// and replaces characters that are not graphic. A comma and a space separate parts, and a
// value that contains them is in quotes. It allocates nothing.
//
// It never writes an API key, nor a header, an attribute or an entry of a descriptor whose
// name suggests a secret, nor a value that looks like one, such as a bearer token. Such a
// part is left out, so the result can be empty. It is empty too if [WithIdentity] names the
// callers.
func (e *Engine) WriteIdentity(to []byte, r *EvaluatedRule) int {
	w := identityWriter{to: to}
	if r.compiled == nil || r.req == nil || e.keyer.identity != nil {
		return 0
	}
	missing := false
	for i := range r.compiled.fields {
		missing = !w.field(&e.keyer, &r.compiled.fields[i], r.req) || missing
	}
	switch {
	case !missing:
	case r.Rule.OnMissingIdentity == rules.MissingAnonymous:
		w.part("", "anonymous")
	case r.compiled.byAddress:
		w.ip(&e.keyer, r.req.IP)
	}
	return w.n
}

// identityWriter writes into a buffer of fixed length.
type identityWriter struct {
	to  []byte
	n   int
	cut bool
}

// field writes one part of a key, and reports whether the request has it.
func (w *identityWriter) field(k *keyer, f *keyfield.Field, req *Request) bool {
	switch f.Kind {
	case keyfield.Global:
		w.part("", "everyone")
		return true
	case keyfield.IP:
		return w.ip(k, req.IP)
	case keyfield.User:
		return w.value("user", req.UserID)
	case keyfield.APIKey:
		return req.APIKey != ""
	case keyfield.Method:
		return w.value("method", methodClass(req.Method))
	case keyfield.Path:
		path, _, _ := strings.Cut(req.Path, "?") // a query may have secrets
		return !strings.HasPrefix(path, "//") && w.value("path", path)
	case keyfield.Attribute:
		return w.named(f.Name, req.Attributes[f.Name])
	case keyfield.Header:
		values := req.Headers[f.Name]
		if len(values) == 0 {
			values = req.Headers[f.Lower]
		}
		return len(values) == 1 && w.named(f.Name, match.HeaderText(values[0]))
	case keyfield.Descriptor, keyfield.DescriptorEntry:
		return w.descriptor(f, req.Descriptor)
	}
	return false
}

func (w *identityWriter) descriptor(f *keyfield.Field, entries []DescriptorEntry) bool {
	for i := range entries {
		if f.Kind == keyfield.DescriptorEntry && entries[i].Key != f.Name {
			continue
		}
		w.named(entries[i].Key, entries[i].Value)
		if f.Kind == keyfield.DescriptorEntry {
			return true
		}
	}
	return f.Kind == keyfield.Descriptor && len(entries) > 0
}

func (w *identityWriter) ip(k *keyer, ip netip.Addr) bool {
	if !ip.IsValid() {
		return false
	}
	var space [64]byte
	ip = ip.Unmap().WithZone("")
	text := space[:0]
	if ip.Is6() {
		prefix, _ := ip.Prefix(k.ipv6Bits) // checked when the engine was created
		text = prefix.AppendTo(text)
	} else {
		text = ip.AppendTo(text)
	}
	w.separate()
	w.write("ip ")
	for _, c := range text {
		w.rune(rune(c))
	}
	return true
}

// named writes a value unless its name suggests a secret.
func (w *identityWriter) named(name, value string) bool {
	if value == "" || secret.IsName(name) {
		return value != ""
	}
	return w.value(name, value)
}

func (w *identityWriter) value(name, value string) bool {
	switch {
	case value == "" || secret.IsValue(value):
	case strings.Contains(value, ", ") || value[0] == '"': // a user could name another one
		w.part(name, "\"")
		w.write(value)
		w.write("\"")
	default:
		w.part(name, value)
	}
	return value != ""
}

func (w *identityWriter) part(name, value string) {
	w.separate()
	if name != "" {
		w.write(name)
		w.write(" ")
	}
	w.write(value)
}

func (w *identityWriter) separate() {
	if w.n > 0 {
		w.write(", ")
	}
}

func (w *identityWriter) write(text string) {
	for _, r := range text {
		if w.rune(r); w.cut {
			return
		}
	}
}

const ellipsis = '…'

// rune writes a character. The last one is an ellipsis if the text is cut.
func (w *identityWriter) rune(r rune) {
	if !unicode.IsGraphic(r) {
		r = utf8.RuneError
	}
	size := utf8.RuneLen(r)
	switch {
	case w.cut:
	case w.n+size+utf8.RuneLen(ellipsis) <= len(w.to):
		w.n += utf8.EncodeRune(w.to[w.n:], r)
	default:
		w.cut = true
		if w.n+utf8.RuneLen(ellipsis) <= len(w.to) {
			w.n += utf8.EncodeRune(w.to[w.n:], ellipsis)
		}
	}
}
