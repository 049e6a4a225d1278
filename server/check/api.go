package check

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/receipt"
	"github.com/fluxgate/fluxgate/server/slots"
)

// Config is what an [API] is made of.
type Config struct {
	// Limiter and Office are required.
	Limiter httplimit.Limiter
	Office  *receipt.Office
	// RuleSet is the rule set of requests that name none, by which callers are
	// judged who may ask about some alone. Empty means that those must name
	// one.
	RuleSet string
	// MaxBody is the most bytes of a body. 0 means 64 KiB; a batch may have
	// as many for each of its requests, up to 1 MiB.
	MaxBody int64
	// MaxBatch is the most requests of a batch. 0 means 100.
	MaxBatch int
	// Failed hears of requests without a decision that are not the caller's
	// fault. Nil means nobody.
	Failed func(r *http.Request, err error)
}

// API answers over HTTP.
type API struct {
	config Config
	slots  *slots.Pool // for requests with large bodies
}

// How many requests with large bodies are held at the same time, and how long
// a caller waits that has its share.
const (
	maxLarge       = 64
	maxCallerLarge = 16
	maxLargeWait   = time.Second
)

// New makes an API.
func New(c Config) (*API, error) {
	if c.Limiter == nil || c.Office == nil {
		return nil, errors.New("checking over HTTP needs a limiter and an office for receipts")
	}
	if c.MaxBody == 0 {
		c.MaxBody = 64 << 10
	}
	if c.MaxBatch == 0 {
		c.MaxBatch = 100
	}
	if c.MaxBody < 0 || c.MaxBatch < 0 {
		return nil, errors.New("bounds of bodies and batches must not be negative")
	}
	if c.Failed == nil {
		c.Failed = func(*http.Request, error) {}
	}
	return &API{c, slots.New(maxLarge, maxCallerLarge, maxLargeWait)}, nil
}

// Routes are the patterns of the API and their handlers.
func (a *API) Routes() map[string]http.Handler {
	return map[string]http.Handler{
		"POST /v1/check":            http.HandlerFunc(a.check),
		"POST /v1/check:batch":      http.HandlerFunc(a.batch),
		"POST /v1/settle":           http.HandlerFunc(a.settle),
		"POST /api/ratelimit/check": http.HandlerFunc(a.compatible),
	}
}

// work is what one request needs, used again.
type work struct {
	body    []byte
	answer  []byte
	asked   wire.Request
	request fluxgate.Request
	lent    bool   // what has failed may still hold the request
	free    func() // gives the slot of a large body back, or nil
}

var works = sync.Pool{New: func() any { return new(work) }}

// maxKept is the largest buffer that is kept for the next request.
const maxKept = 64 << 10

func (w *work) release() {
	if w.free != nil {
		w.free()
	}
	if w.lent || cap(w.body) > maxKept || cap(w.answer) > maxKept {
		return
	}
	// Nothing of a caller stays behind.
	clear(w.body[:cap(w.body)])
	*w = work{body: w.body[:0], answer: w.answer[:0]}
	works.Put(w)
}

func (a *API) check(rw http.ResponseWriter, r *http.Request) {
	w := works.Get().(*work)
	defer w.release()
	if p := a.read(w, r, a.config.MaxBody, &w.asked); p != nil {
		p.write(rw, r)
		return
	}
	if err := w.asked.To(&w.request); err != nil {
		badRequest("%v", err).write(rw, r)
		return
	}
	if !a.may(access.From(r.Context()), w.asked.RuleSet) {
		notTheirs("ruleSet").write(rw, r)
		return
	}
	d, err := a.decide(r.Context(), &w.asked, &w.request)
	if err != nil {
		w.lent = true
		a.failure(r, err).write(rw, r)
		return
	}
	w.answer = wire.Append(w.answer[:0], &d, a.config.Office.Issue(d.Receipt()))
	writeJSON(rw, w.answer)
}

// may reports whether a caller may ask about a rule set. Where nobody has found
// out who calls, nobody is kept from anything.
func (a *API) may(who *access.Identity, ruleSet string) bool {
	if who == nil {
		return true
	}
	if ruleSet == "" {
		ruleSet = a.config.RuleSet
	}
	return who.May(config.RoleCheck, ruleSet)
}

// decide asks the limiter, for as long as the caller waits.
func (a *API) decide(ctx context.Context, asked *wire.Request, request *fluxgate.Request) (fluxgate.Decision, error) {
	if timeout := asked.Timeout(); timeout > 0 {
		limited, cancel := patient(ctx, timeout)
		defer cancel()
		ctx = limited
	}
	return a.config.Limiter.Check(ctx, request)
}

// batch decides requests each for itself and all at the same time, so that
// they share calls to the store.
func (a *API) batch(rw http.ResponseWriter, r *http.Request) {
	w := works.Get().(*work)
	defer w.release()
	var asked wire.Batch
	if p := a.read(w, r, min(a.config.MaxBody*int64(a.config.MaxBatch), 1<<20), &asked); p != nil {
		p.write(rw, r)
		return
	}
	if n := len(asked.Requests); n == 0 || n > a.config.MaxBatch {
		badRequest("requests: there must be 1 to %d, not %d", a.config.MaxBatch, n).write(rw, r)
		return
	}
	requests, who := make([]fluxgate.Request, len(asked.Requests)), access.From(r.Context())
	for i := range asked.Requests {
		if err := asked.Requests[i].To(&requests[i]); err != nil {
			badRequest("requests[%d].%v", i, err).write(rw, r)
			return
		}
		if !a.may(who, asked.Requests[i].RuleSet) {
			notTheirs(fmt.Sprintf("requests[%d].ruleSet", i)).write(rw, r)
			return
		}
	}
	decisions := make([]fluxgate.Decision, len(requests))
	failures := make([]error, len(requests))
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() { decisions[i], failures[i] = a.guarded(r.Context(), &asked.Requests[i], &requests[i]) })
	}
	all.Wait()
	w.answer = append(w.answer[:0], `{"decisions":[`...)
	for i := range decisions {
		if i > 0 {
			w.answer = append(w.answer, ',')
		}
		if err := failures[i]; err != nil {
			w.answer = append(w.answer, `{"error":"`...)
			w.answer = append(w.answer, a.failure(r, err).Detail...) // ours, and without anything to escape
			w.answer = append(w.answer, `"}`...)
			continue
		}
		w.answer = wire.Append(w.answer, &decisions[i], a.config.Office.Issue(decisions[i].Receipt()))
	}
	w.answer = append(w.answer, `]}`...)
	writeJSON(rw, w.answer)
}

// guarded is decide on a goroutine of ours, where a panic would end the
// process: net/http catches only those of a request's own.
func (a *API) guarded(ctx context.Context, asked *wire.Request, request *fluxgate.Request) (d fluxgate.Decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("deciding a request of a batch: panic: %v", p)
		}
	}()
	return a.decide(ctx, asked, request)
}
