package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// message is a request that is sent byte for byte, from a loopback address.
type message struct {
	To           string // such as http://127.0.0.1:8083
	HTTP         int    // 2 for HTTP/2 without TLS; otherwise HTTP/1.1
	From         string // 127.0.0.1 if it is empty
	Method, Path string
	Headers      []header
}

// header is a name, a value, and "latin-1" if the value is sent in that encoding, not in UTF-8.
type header [3]string

// value returns the bytes to send.
func (h *header) value() string {
	if h[2] != "latin-1" {
		return h[1]
	}
	var b []byte
	for _, r := range h[1] {
		b = append(b, byte(r))
	}
	return string(b)
}

// received is the answer to a message.
type received struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"` // by names in lower case
	Body    any               `json:"body"`    // the value, if it is JSON
}

func send(w http.ResponseWriter, r *http.Request) {
	var m message
	if !read(w, r, &m) {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	answer, err := m.exchange(ctx)
	if err != nil {
		http.Error(w, fmt.Sprintf("%s %s: %v", m.Method, m.Path, err), http.StatusBadGateway)
		return
	}
	writeJSON(w, answer)
}

func (m *message) exchange(ctx context.Context) (*received, error) {
	to, err := url.Parse(m.To)
	if err != nil {
		return nil, err
	}
	from, err := netip.ParseAddr(cmp.Or(m.From, "127.0.0.1"))
	if err != nil {
		return nil, err
	}
	m.Method = cmp.Or(m.Method, http.MethodGet)
	dialer := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	if m.HTTP == 2 {
		return m.sendHTTP2(ctx, dialer, to)
	}
	conn, err := dialer.DialContext(ctx, "tcp", to.Host)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, m.text(to.Host)); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: m.Method})
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return receive(response)
}

// text is the request in HTTP/1.1.
func (m *message) text(host string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nConnection: close\r\n", m.Method, m.Path)
	for _, h := range m.Headers {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h.value())
		if strings.EqualFold(h[0], "Host") {
			host = ""
		}
	}
	if host != "" {
		fmt.Fprintf(&b, "Host: %s\r\n", host)
	}
	return b.String() + "\r\n"
}

func (m *message) sendHTTP2(ctx context.Context, dialer *net.Dialer, to *url.URL) (*received, error) {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{DialContext: dialer.DialContext, Protocols: protocols, DisableCompression: true}
	defer transport.CloseIdleConnections()
	request := (&http.Request{
		Method: m.Method, URL: &url.URL{Scheme: to.Scheme, Host: to.Host, Opaque: m.Path}, Header: http.Header{},
	}).WithContext(ctx)
	for _, h := range m.Headers {
		if strings.EqualFold(h[0], "Host") {
			request.Host = h[1] // as :authority
			continue
		}
		request.Header.Add(h[0], h.value())
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return receive(response)
}

func receive(response *http.Response) (*received, error) {
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	answer := &received{Status: response.StatusCode, Headers: map[string]string{}, Body: string(body)}
	for name, lines := range response.Header {
		answer.Headers[strings.ToLower(name)] = strings.Join(lines, ", ")
	}
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // empty if there is none
	if strings.HasSuffix(media, "json") && len(body) > 0 {
		if err := json.Unmarshal(body, &answer.Body); err != nil {
			return nil, fmt.Errorf("the body is not JSON: %w", err)
		}
	}
	return answer, nil
}
