package forwardauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/syntax"
)

// proxyRequest is the proxy's own request.
type proxyRequest struct {
	request    *http.Request
	ruleSet    string
	denyStatus int    // of all rejections, unless it is 429
	denyHeader string // gets the status of the rejection itself
}

type proxyRequestKey struct{}

// proxyRequestOf returns the proxy's request that describes r.
func proxyRequestOf(r *http.Request) *proxyRequest {
	return r.Context().Value(proxyRequestKey{}).(*proxyRequest)
}

func ruleSetOf(r *http.Request) string { return proxyRequestOf(r).ruleSet }

// readQuery reads the parameters of the proxy. Unknown ones are refused, since
// they would have no effect.
func (p *proxyRequest) readQuery() error {
	query, err := url.ParseQuery(p.request.URL.RawQuery)
	if err != nil {
		return errors.New("the query is malformed")
	}
	for name, values := range query {
		if len(values) != 1 {
			return fmt.Errorf("the query has %.64q more than once", name)
		}
		switch name {
		case "ruleSet":
			p.ruleSet = values[0]
		case "deny":
			status, err := strconv.Atoi(values[0])
			if err != nil || !canDeny(status) {
				return errors.New("the query parameter deny must be 401, 403 or 429")
			}
			p.denyStatus = status
		default:
			return fmt.Errorf("unknown query parameter %.64q: use ruleSet and deny", name)
		}
	}
	return nil
}

// original returns the client's request as the proxy describes it. Its headers
// are those that the proxy has passed on.
func (h *Handler) original(r *http.Request) (*http.Request, error) {
	for _, name := range h.singleHeaders {
		// One of several lines may be the client's.
		if len(r.Header[name]) > 1 {
			return nil, fmt.Errorf("the request has more than one %s header", name)
		}
	}
	method := strings.Trim(r.Header.Get(h.config.MethodHeader), " \t")
	if !syntax.IsToken(method) {
		return nil, fmt.Errorf("the proxy does not send the method of the request in %s", h.config.MethodHeader)
	}
	uri := strings.Trim(r.Header.Get(h.config.URIHeader), " \t")
	if uri == "" {
		return nil, fmt.Errorf("the proxy does not send the path of the request in %s", h.config.URIHeader)
	}
	if path, _, _ := strings.Cut(uri, "?"); strings.Contains(uri, "#") || strings.Contains(path, `\`) {
		// Not valid, and read differently: for Go both are part of a segment, for
		// Node # ends the path and \ is a slash.
		return nil, errors.New(`the request target contains a raw # or \: send %23 or %5C`)
	}
	address, err := url.ParseRequestURI(uri)
	if err != nil || address.Opaque != "" {
		return nil, errors.New("the path of the request is malformed")
	}
	host := strings.Trim(r.Header.Get(h.config.HostHeader), " \t")
	if host != "" && !validHost(host) {
		return nil, errors.New("the request's host is not a name or an address with an optional port")
	}
	original := r.WithContext(r.Context())
	original.Method, original.RequestURI, original.URL = method, uri, address
	switch {
	case host != "":
		original.Host = host
	case address.Host != "":
		original.Host = address.Host
	}
	return original, nil
}

// validHost reports whether a Host header is a host with an optional port, and
// nothing that a backend may read as user, path or query.
func validHost(value string) bool {
	name, port, hasPort := strings.Cut(value, ":")
	if address, rest, found := strings.Cut(value, "]"); found && strings.HasPrefix(address, "[") { // IPv6
		name, port, hasPort = address[1:], strings.TrimPrefix(rest, ":"), rest != ""
		if hasPort && rest[0] != ':' {
			return false
		}
	}
	_, err := strconv.ParseUint(port, 10, 16)
	return syntax.IsHost(name) && (!hasPort || port == "" || err == nil)
}

// refusal is an answer of this package, without a decision.
func refusal(status int, detail string) *httplimit.Rejection {
	return &httplimit.Rejection{Problem: httplimit.Problem{Title: http.StatusText(status), Status: status, Detail: detail}}
}

// reject answers that a described request may not pass.
func reject(w http.ResponseWriter, r *http.Request, rejection *httplimit.Rejection) {
	proxyRequestOf(r).reject(w, rejection)
}

// reject writes a rejection with the status that the proxy wants. Without a
// decision it sets no header, so that the proxy can tell the two apart.
func (p *proxyRequest) reject(w http.ResponseWriter, rejection *httplimit.Rejection) {
	if errors.Is(rejection.Err, fluxgate.ErrNoRuleSet) {
		// Not a failure: proxies may be configured to let requests pass then.
		rejection = refusal(http.StatusForbidden, rejection.Err.Error())
	}
	if rejection.Err == nil {
		w.Header().Set(p.denyHeader, strconv.Itoa(rejection.Problem.Status))
		if p.denyStatus != http.StatusTooManyRequests {
			document, _ := json.Marshal(&rejection.Problem) // strings and numbers: never fails
			w.Header().Set(ProblemHeader, string(document))
			w = &denyingWriter{w, p.denyStatus}
		}
	}
	// The proxy's own method decides whether there is a body, not the client's.
	rejection.Write(w, p.request)
}

// denyingWriter answers with a status of its own.
type denyingWriter struct {
	http.ResponseWriter
	status int
}

func (w *denyingWriter) WriteHeader(int) { w.ResponseWriter.WriteHeader(w.status) }
