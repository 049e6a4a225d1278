package check

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/receipt"
	"github.com/fluxgate/fluxgate/server/slots"
)

// Config configures an [API]. Limiter and Issuer are required.
type Config struct {
	Limiter fluxgate.Limiter
	// Issuer issues and redeems receipts.
	Issuer *receipt.Issuer
	// RuleSet is the rule set of requests that name none. Empty means that
	// callers whose roles are limited to some rule sets must name one.
	RuleSet string
	// MaxBody bounds a body in bytes. 0 means 64 KiB; a batch may have as many
	// for each of its requests, up to 1 MiB.
	MaxBody int64
	// MaxBatch bounds the requests of a batch. 0 means 100.
	MaxBatch int
	// LedgerTimeout is how long a settlement waits for the ledger of receipts before it is
	// queued. 0 means the longest time, a second.
	LedgerTimeout time.Duration
	// Available reports whether the limiter can settle. While it cannot, settlements are
	// queued. Nil means always.
	Available func() bool
	// Logger gets a line when settlements begin to wait, and when none waits any more. Nil
	// means slog.Default().
	Logger *slog.Logger
	// Loaded returns the ids of loaded rule sets, to suggest one in place of an unknown one.
	// Nil means no suggestions.
	Loaded func() []string
	// Failed is called for a request that cannot be decided or settled because of
	// an error of the server. Nil means no call.
	Failed func(r *http.Request, err error)
	// Withdraw gives back what decisions of a batch have taken whose caller has left. Nil means
	// that it stays taken. For a single request that is left to the limiter.
	Withdraw func(ctx context.Context, decisions ...*fluxgate.Decision)
}

// API is the check API over HTTP.
type API struct {
	config   Config
	slots    *slots.Pool // for large bodies until they are decoded
	decoding *slots.Pool // for large bodies while they are decoded
	batches  *slots.Pool
	later    *later
	// stranger logs once that a receipt may be of another server.
	stranger sync.Once
}

// How many large bodies are read at once, and how long a caller waits for a slot.
const (
	maxLarge       = 64
	maxCallerLarge = 16
	maxLargeWait   = time.Second
	// Few large bodies are decoded at once: decoded they take up to twenty times as much
	// memory. It takes milliseconds each.
	maxDecoding       = 4
	maxCallerDecoding = 2
	maxDecodingWait   = 10 * time.Second
)

// New returns an API. Its method Run must run for settlements that wait.
func New(c Config) (*API, error) {
	if c.Limiter == nil || c.Issuer == nil {
		return nil, errors.New("the check API needs a limiter and an issuer of receipts")
	}
	c.MaxBody = cmp.Or(c.MaxBody, 64<<10)
	c.MaxBatch = cmp.Or(c.MaxBatch, 100)
	if c.MaxBody < 0 || c.MaxBatch < 0 {
		return nil, errors.New("the check API: bounds must not be negative")
	}
	if c.LedgerTimeout = min(c.LedgerTimeout, settleTimeout); c.LedgerTimeout <= 0 {
		c.LedgerTimeout = settleTimeout
	}
	if c.Available == nil {
		c.Available = func() bool { return true }
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Loaded == nil {
		c.Loaded = func() []string { return nil }
	}
	if c.Withdraw == nil {
		c.Withdraw = func(context.Context, ...*fluxgate.Decision) {}
	}
	if c.Failed == nil {
		c.Failed = func(*http.Request, error) {}
	}
	return &API{
		config:   c,
		slots:    slots.New(maxLarge, maxCallerLarge, maxLargeWait),
		decoding: slots.New(maxDecoding, maxCallerDecoding, maxDecodingWait),
		batches:  slots.New(maxBatches, maxCallerBatches, maxBatchWait),
		later:    newLater(c.Logger),
	}, nil
}

// Routes returns the patterns of the API and their handlers.
func (a *API) Routes() map[string]http.Handler {
	return map[string]http.Handler{
		"POST /v1/check":            http.HandlerFunc(a.check),
		"POST /v1/check:batch":      http.HandlerFunc(a.batch),
		"POST /v1/settle":           http.HandlerFunc(a.settle),
		"POST /v1/extend":           http.HandlerFunc(a.extend),
		"POST /api/ratelimit/check": http.HandlerFunc(a.compatible),
	}
}

// scratch is the memory of one request, reused by others.
type scratch struct {
	body     bytes.Buffer
	limited  io.LimitedReader
	answer   []byte
	unsent   []*fluxgate.Decision // of a batch, that are encoded in answer
	asked    wire.Request
	request  fluxgate.Request
	began    bool   // a part of the answer to a batch was sent
	retained bool   // a failed limiter may still hold the request
	free     func() // gives back the slot of a large body, or nil
	slot     *batchSlot
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// maxKept is the largest buffer that is kept for the next request.
const maxKept = 64 << 10

// freeLarge forgets a large body and gives its slot back. The request may wait for long.
func (s *scratch) freeLarge() {
	s.free()
	s.body, s.free = bytes.Buffer{}, nil
}

func (s *scratch) release() {
	if s.free != nil {
		s.freeLarge()
	}
	if s.slot != nil {
		s.slot.free()
		s.slot = nil
	}
	if s.retained || s.body.Cap() > maxKept || cap(s.answer) > maxKept {
		return
	}
	s.body.Reset()
	clear(s.body.AvailableBuffer()[:s.body.Available()]) // the next request is another caller's
	s.answer, s.asked, s.request, s.limited, s.began = s.answer[:0], wire.Request{}, fluxgate.Request{}, io.LimitedReader{}, false
	scratches.Put(s)
}

func (a *API) check(w http.ResponseWriter, r *http.Request) {
	s := scratches.Get().(*scratch)
	defer s.release()
	if p := a.read(s, r, a.config.MaxBody, &s.asked); p != nil {
		p.write(w, r)
		return
	}
	if d, ok := a.answer(w, r, s, "ruleSet"); ok {
		s.answer = wire.Append(s.answer[:0], &d, a.config.Issuer.Issue(d.Receipt()))
		writeJSON(w, s.answer)
	}
}

// answer decides the request in s. If there is no decision it answers with a
// problem. place is the name of the field with the rule set.
func (a *API) answer(w http.ResponseWriter, r *http.Request, s *scratch, place string) (d fluxgate.Decision, ok bool) {
	err := s.asked.To(&s.request)
	switch {
	case err != nil:
		badRequest("%v", err).write(w, r)
		return d, false
	case !a.allowed(access.From(r.Context()), s.asked.RuleSet):
		forbidden(place).write(w, r)
		return d, false
	}
	if d, err = a.decide(r.Context(), &s.asked, &s.request); err != nil {
		s.retained = true
		a.failure(r, &s.request, err).write(w, r)
		return d, false
	}
	return d, true
}

// allowed reports whether a caller may check a rule set. Without authentication
// all callers may.
func (a *API) allowed(who *access.Identity, ruleSet string) bool {
	if who == nil {
		return true
	}
	ruleSet = cmp.Or(ruleSet, a.config.RuleSet)
	return who.May(config.RoleCheck, ruleSet)
}

// decide decides a request, for as long as the caller waits.
func (a *API) decide(ctx context.Context, asked *wire.Request, request *fluxgate.Request) (fluxgate.Decision, error) {
	if timeout := asked.Timeout(); timeout > 0 {
		limited, cancel := patient(ctx, timeout)
		defer cancel()
		ctx = limited
	}
	return a.config.Limiter.Check(ctx, request)
}
