package forwardauth

import (
	"context"
	"fmt"
	"net/http"

	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/httplimit"
)

// Handler answers proxies. It can be used by any number of goroutines.
type Handler struct {
	config   Config
	resolver *clientip.Resolver
	probe    http.Header
	limit    http.Handler
	// identityHeaders say who the client is, in one line each.
	identityHeaders []string
}

var _ http.Handler = (*Handler)(nil)

// New makes a handler that asks limiter. The error has everything that is
// wrong with the configuration.
func New(limiter httplimit.Limiter, config Config) (*Handler, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("answering proxies: %w", err)
	}
	resolver, err := clientip.New(config.Proxies)
	if err != nil {
		return nil, fmt.Errorf("answering proxies: %w", err)
	}
	limit, err := httplimit.New(limiter, config.options(resolver)...)
	if err != nil {
		return nil, fmt.Errorf("answering proxies: %w", err)
	}
	return &Handler{
		config: config, resolver: resolver, probe: newProbe(config.Proxies.Header), limit: limit(http.HandlerFunc(pass)),
		identityHeaders: config.identityHeaders(),
	}, nil
}

// ServeHTTP answers a proxy.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.config.AnyPeer && !h.trusts(r) {
		refusal(http.StatusForbidden, "Only trusted proxies may ask here.").Write(w, r)
		return
	}
	q := &question{asked: r, deny: h.config.DenyStatus, marker: h.config.DenyHeader}
	if err := h.readQuery(r, q); err != nil {
		refusal(http.StatusBadRequest, err.Error()).Write(w, r)
		return
	}
	original, err := h.original(r)
	if err != nil {
		q.refuse(w, refusal(http.StatusBadRequest, err.Error()))
		return
	}
	original = original.WithContext(context.WithValue(r.Context(), questionKey{}, q))
	h.limit.ServeHTTP(w, original)
}

// pass answers that a request may pass. The headers are set already.
func pass(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusNoContent)
}

// probeAddr is an address that no peer can have.
const probeAddr = "255.255.255.255"

// newProbe is a header with which only a trusted proxy is resolved to another
// address than its own.
func newProbe(header string) http.Header {
	probe := make(http.Header)
	switch name := http.CanonicalHeaderKey(header); name {
	case "":
		probe.Set(clientip.XForwardedFor, probeAddr)
	case clientip.Forwarded:
		probe.Set(name, "for="+probeAddr)
	default:
		probe.Set(name, probeAddr)
	}
	return probe
}

// trusts reports whether the peer is a trusted proxy: whether the resolver
// would believe what it says about its client.
func (h *Handler) trusts(r *http.Request) bool {
	probed := r.WithContext(r.Context())
	probed.Header = h.probe
	return h.resolver.Addr(probed).String() == probeAddr
}
