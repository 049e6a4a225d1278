package clientip_test

import (
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/clientip"
)

// Behind random chains of honest proxies the client address is the one that the
// proxies report, whatever the client writes into any header.
func TestResolver_HonestChain_NoRace(t *testing.T) {
	for _, header := range []string{clientip.XForwardedFor, "CF-Connecting-IP"} {
		t.Run(header, func(t *testing.T) {
			r := newResolver(t, clientip.Config{TrustedProxies: proxies, Header: header})
			g := generator{rand.New(rand.NewPCG(7, 7))}
			for i := range 5_000 {
				w := g.way(header)
				peer := g.spell(w.peer())
				without, with := http.Header{}, g.forgery()
				sent := with.Clone()
				w.pass(without)
				w.pass(with)
				if got := r.Resolve(peer, without); got != w.want {
					t.Fatalf("way %d: from %s with %.2000q the client is %v, want %v", i, peer, without, got, w.want)
				}
				if got := r.Resolve(peer, with); got != w.want {
					t.Fatalf("way %d: a client that sent %.2000q turned %v into %v: %.4000q", i, sent, w.want, got, with)
				}
			}
		})
	}
}

// way is how a request comes from a client to us.
type way struct {
	hops []netip.Addr // the client, then the proxies
	want netip.Addr
	// steps are what each proxy does to the headers.
	steps []func(http.Header)
}

func (w *way) peer() netip.Addr { return w.hops[len(w.hops)-1] }

func (w *way) pass(header http.Header) {
	for _, step := range w.steps {
		step(header)
	}
}

type generator struct{ *rand.Rand }

// way draws a client, up to five proxies and how each of them names the hop
// before it, or fails to.
func (g generator) way(header string) *way {
	client := g.stranger()
	w := &way{hops: []netip.Addr{client}, want: client}
	for i := range g.IntN(6) {
		before, proxy := w.peer(), g.proxy()
		w.hops = append(w.hops, proxy)
		if header != clientip.XForwardedFor {
			if i == 0 { // the CDN's edge; the others pass its header on
				w.steps = append(w.steps, g.overwrites(header, g.spell(before)))
			}
			continue
		}
		named := g.spell(before)
		if g.IntN(10) == 0 {
			named = pick(g, "unknown", "_hidden", "0.0.0.0", "010.0.0.1", "backend")
			w.want = proxy
		}
		w.steps = append(w.steps, g.appends(header, g.space()+named+g.space()))
	}
	return w
}

func (g generator) overwrites(header, value string) func(http.Header) {
	return func(h http.Header) { h.Set(header, value) }
}

// appends is one of the ways in which real proxies add an entry.
func (g generator) appends(header, entry string) func(http.Header) {
	header = http.CanonicalHeaderKey(header)
	style := g.IntN(3)
	return func(h http.Header) {
		lines := h[header]
		switch {
		case style == 0 || len(lines) == 0: // HAProxy
			h[header] = append(lines, entry)
		case style == 1: // nginx
			h[header] = []string{strings.Join(lines, ", ") + ", " + entry}
		default:
			lines[len(lines)-1] += "," + entry
		}
	}
}

// forgery is what a client sends.
func (g generator) forgery() http.Header {
	h := http.Header{}
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "Cf-Connecting-Ip", "X-Real-Ip"} {
		for range g.IntN(4) {
			h[name] = append(h[name], g.garbage())
		}
	}
	return h
}

func (g generator) garbage() string {
	var b strings.Builder
	for range g.IntN(12) {
		switch g.IntN(8) {
		case 0:
			b.WriteString(g.spell(g.stranger()))
		case 1:
			b.WriteString(g.spell(g.proxy()))
		case 2:
			b.WriteByte(byte(g.IntN(256)))
		case 3:
			b.WriteString(`for="` + g.spell(g.proxy()) + `";host="a,b"`)
		case 4:
			b.WriteString(strings.Repeat(pick(g, `\`, `"`, ",", " ", "1", "10.0.0.1,"), g.IntN(700)))
		default:
			b.WriteString(pick(g, ", ", ",", ";", "=", `"`, `\`, `\"`, "for=", `for="`, "unknown", "_hidden", "[", "]", "%", "\x00", "\t"))
		}
	}
	return b.String()
}

// stranger is an address that is not trusted.
func (g generator) stranger() netip.Addr {
	if g.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte{203, 0, 113, byte(g.IntN(256))})
	}
	return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0xbb, 0xbb, 6: byte(g.IntN(256)), 15: byte(g.IntN(256))})
}

// proxy is an address that is trusted.
func (g generator) proxy() netip.Addr {
	if g.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte{10, byte(g.IntN(256)), byte(g.IntN(256)), byte(g.IntN(256))})
	}
	return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0xaa, 0xaa, 6: byte(g.IntN(256)), 15: byte(g.IntN(256))})
}

// spell writes an address in one of the ways that proxies do.
func (g generator) spell(addr netip.Addr) string {
	port := uint16(g.IntN(1 << 16))
	mapped := netip.AddrFrom16(addr.As16())
	forms := []string{addr.String(), netip.AddrPortFrom(addr, port).String(), "[" + mapped.String() + "]", mapped.String(), netip.AddrPortFrom(mapped, port).String()}
	if addr.Is6() {
		forms = append(forms, addr.StringExpanded(), strings.ToUpper(addr.String()), addr.String()+"%eth0", "["+addr.String()+"%eth0]:80")
	}
	return pick(g, forms...)
}

func (g generator) space() string { return pick(g, "", "", " ", "\t", " \t ") }

func pick(g generator, of ...string) string { return of[g.IntN(len(of))] }
