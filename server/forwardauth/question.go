package forwardauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/syntax"
)

// question is what a proxy asks for, beside the request that it asks about.
type question struct {
	asked   *http.Request // the proxy's own
	ruleSet string
	deny    int    // the status of rejections
	marker  string // the header with their own
}

type questionKey struct{}

// questionOf is the question that a described request belongs to.
func questionOf(r *http.Request) *question { return r.Context().Value(questionKey{}).(*question) }

func ruleSetOf(r *http.Request) string { return questionOf(r).ruleSet }

// readQuery reads what the proxy's configuration asks for. What is not known
// is refused: it would not be looked at.
func (h *Handler) readQuery(r *http.Request, q *question) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return errors.New("the query cannot be read")
	}
	for name, values := range query {
		if len(values) != 1 {
			return fmt.Errorf("the query has %.64q more than once", name)
		}
		switch name {
		case "ruleSet":
			q.ruleSet = values[0]
		case "deny":
			status, err := strconv.Atoi(values[0])
			if err != nil || !canDeny(status) {
				return errors.New("the query's deny must be 401, 403 or 429")
			}
			q.deny = status
		default:
			return fmt.Errorf("the query has %.64q: only ruleSet and deny are known", name)
		}
	}
	if q.ruleSet == "" && h.config.RuleSetHeader != "" {
		q.ruleSet, err = one(r.Header, h.config.RuleSetHeader)
	}
	return err
}

// original is the client's request as the proxy describes it. Its headers are
// what the proxy has passed on.
func (h *Handler) original(r *http.Request) (*http.Request, error) {
	method, err := one(r.Header, h.config.MethodHeader)
	if err != nil {
		return nil, err
	}
	if !syntax.IsToken(method) {
		return nil, fmt.Errorf("the proxy does not say the request's method in %s", h.config.MethodHeader)
	}
	uri, err := one(r.Header, h.config.URIHeader)
	if err != nil {
		return nil, err
	}
	if uri == "" {
		return nil, fmt.Errorf("the proxy does not say the request's path in %s", h.config.URIHeader)
	}
	if path, _, _ := strings.Cut(uri, "?"); strings.Contains(uri, "#") || strings.Contains(path, `\`) {
		// Not valid, and read differently: for Go both are part of a segment, for
		// Node # ends the path and \ is a slash.
		return nil, errors.New(`the request target contains a raw # or \: send %23 or %5C`)
	}
	address, err := url.ParseRequestURI(uri)
	if err != nil || address.Opaque != "" {
		return nil, errors.New("the request's path cannot be read")
	}
	host, err := one(r.Header, h.config.HostHeader)
	if err != nil {
		return nil, err
	}
	if host != "" && !validHost(host) {
		return nil, errors.New("the request's host is not a name or an address with an optional port")
	}
	for _, name := range h.identityHeaders {
		if _, err := one(r.Header, name); err != nil {
			return nil, err
		}
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

// validHost reports whether a Host header has a host and an optional port, and nothing
// that a backend may read as user, path or query.
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

// one is the value of a header, or empty if it is not there. Of two lines one
// may be the client's, and nobody knows which.
func one(header http.Header, name string) (string, error) {
	switch lines := header[name]; len(lines) {
	case 0:
		return "", nil
	case 1:
		return strings.Trim(lines[0], " \t"), nil
	}
	return "", fmt.Errorf("the request has more than one %s header", name)
}

// refusal is an answer of this package's own.
func refusal(status int, detail string) *httplimit.Rejection {
	return &httplimit.Rejection{Problem: httplimit.Problem{Title: http.StatusText(status), Status: status, Detail: detail}}
}

// reject answers that a described request may not pass.
func reject(w http.ResponseWriter, r *http.Request, rejection *httplimit.Rejection) {
	questionOf(r).refuse(w, rejection)
}

// refuse writes a rejection in the way that the proxy has asked for. Where
// there is no decision it is not marked, so that the proxy can tell.
func (q *question) refuse(w http.ResponseWriter, rejection *httplimit.Rejection) {
	if rejection.Err == nil {
		w.Header().Set(q.marker, strconv.Itoa(rejection.Problem.Status))
		if q.deny != http.StatusTooManyRequests {
			document, _ := json.Marshal(&rejection.Problem) // strings and numbers: never fails
			w.Header().Set(ProblemHeader, string(document))
			w = &denyingWriter{w, q.deny}
		}
	}
	// The proxy's own method decides whether there is a body, not the client's.
	rejection.Write(w, q.asked)
}

// denyingWriter answers with another status than it is told.
type denyingWriter struct {
	http.ResponseWriter
	status int
}

func (w *denyingWriter) WriteHeader(int) { w.ResponseWriter.WriteHeader(w.status) }
