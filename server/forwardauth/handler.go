package forwardauth

import (
	"context"
	"fmt"
	"net/http"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/httplimit"
)

// Handler answers proxies. It is safe for concurrent use.
type Handler struct {
	config   Config
	resolver *clientip.Resolver
	limit    http.Handler
	// singleHeaders may occur once in a request.
	singleHeaders []string
}

var _ http.Handler = (*Handler)(nil)

// New returns a handler that decides with limiter. The error lists all problems
// of the configuration.
func New(limiter fluxgate.Limiter, config Config) (*Handler, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("forward-auth: %w", err)
	}
	resolver, err := clientip.New(config.Proxies)
	if err != nil {
		return nil, fmt.Errorf("forward-auth: %w", err)
	}
	if limiter != nil { // httplimit says so otherwise
		limiter = asking{limiter}
	}
	limit, err := httplimit.New(limiter, config.options(resolver)...)
	if err != nil {
		return nil, fmt.Errorf("forward-auth: %w", err)
	}
	return &Handler{config: config, resolver: resolver, limit: limit(http.HandlerFunc(pass)), singleHeaders: config.singleHeaders()}, nil
}

// asking decides requests of proxies, which do not report the end of a request.
type asking struct{ fluxgate.Limiter }

func (a asking) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	req.EndUnknown = true
	return a.Limiter.Check(ctx, req)
}

// ServeHTTP answers a proxy.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.resolver.Trusts(r) {
		refusal(http.StatusForbidden, "Only trusted proxies may send requests here.").Write(w, r)
		return
	}
	p := &proxyRequest{request: r, denyStatus: h.config.DenyStatus, denyHeader: h.config.DenyHeader}
	if err := p.readQuery(); err != nil {
		refusal(http.StatusBadRequest, err.Error()).Write(w, r)
		return
	}
	original, err := h.original(r)
	if err != nil {
		p.reject(w, refusal(http.StatusBadRequest, err.Error()))
		return
	}
	h.limit.ServeHTTP(w, original.WithContext(context.WithValue(r.Context(), proxyRequestKey{}, p)))
}

// pass answers that a request may pass. The middleware has set the headers.
func pass(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}
