package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
)

const (
	// path is the only one that is passed on: the gateway cannot estimate others.
	path = "/v1/chat/completions"
	// maxBody bounds a request.
	maxBody = 1 << 20
)

// gateway estimates a request, has it limited, and passes it on.
type gateway struct {
	endpoint, key string // of the upstream
	teams         map[[sha256.Size]byte]string
	limited       http.Handler
}

// newGateway returns a gateway for clients with keys: team:key, separated by spaces.
func newGateway(limiter fluxgate.Limiter, upstream, upstreamKey, keys string) (*gateway, error) {
	target, err := url.Parse(upstream)
	if err != nil || target.Host == "" {
		return nil, errors.New("-upstream must be a URL such as https://api.openai.com")
	}
	g := &gateway{endpoint: target.JoinPath(path).String(), key: upstreamKey, teams: map[[sha256.Size]byte]string{}}
	for entry := range strings.FieldsSeq(keys) {
		team, key, ok := strings.Cut(entry, ":")
		if !ok || team == "" || key == "" {
			return nil, errors.New("GATEWAY_KEYS must be team:key, separated by spaces") // does not show a key
		}
		g.teams[sha256.Sum256([]byte(key))] = team
	}
	if len(g.teams) == 0 {
		return nil, errors.New("GATEWAY_KEYS is not set: no client could use the gateway")
	}
	limit, err := httplimit.New(limiter,
		httplimit.WithAPIKeyFunc(httplimit.BearerToken),
		httplimit.WithAmend(func(r *http.Request, req *fluxgate.Request) error {
			c := chatOf(r.Context())
			req.Attributes, req.Estimate = map[string]string{"team": c.team}, &c.estimate
			return nil
		}),
		httplimit.WithSettling(true), httplimit.WithRejection(reject),
		httplimit.WithXHeaders(false), httplimit.WithIETFHeaders(false), // setLimitHeaders instead
	)
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{Rewrite: g.rewrite, ModifyResponse: answered, ErrorHandler: failed}
	g.limited = limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if admission, ok := httplimit.FromContext(r.Context()); ok {
			setLimitHeaders(w.Header(), admission.Decision())
		}
		proxy.ServeHTTP(w, r)
	}))
	return g, nil
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != path {
		writeError(w, http.StatusNotFound, "only POST "+path+" is supported")
		return
	}
	team, ok := g.teams[sha256.Sum256([]byte(httplimit.BearerToken(r)))]
	if !ok {
		writeError(w, http.StatusUnauthorized, "unknown API key")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.StatusRequestEntityTooLarge, "the body cannot be read or is longer than 1 MiB")
		return
	}
	c, err := parseChat(body)
	if err != nil {
		writeError(w, http.StatusBadRequest, err.Error())
		return
	}
	c.team = team
	g.limited.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chatKey{}, c)))
}

// rewrite makes a new request: no other header of the client reaches the upstream,
// where it could choose an account. Answers must not be compressed, to be read.
func (g *gateway) rewrite(p *httputil.ProxyRequest) {
	body := bytes.NewReader(chatOf(p.In.Context()).body)
	p.Out = fluxgate.Must(http.NewRequestWithContext(p.Out.Context(), http.MethodPost, g.endpoint, body))
	p.Out.Header.Set("Content-Type", "application/json")
	p.Out.Header.Set("Accept-Encoding", "identity")
	p.Out.Header.Set("Authorization", "Bearer "+g.key)
}

// failed answers a request that the upstream did not, and withdraws it. If the client
// has gone, the upstream may have begun: the request stays charged at its estimate.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		log.Printf("upstream: %v", err)
		withdraw(r.Context())
	}
	writeError(w, http.StatusBadGateway, "the upstream did not answer")
}
