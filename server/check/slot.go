package check

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/server/slots"
)

const (
	// How many batches are decided at once. Each of their requests has a goroutine.
	maxBatches       = 64
	maxCallerBatches = 16
	maxBatchWait     = time.Second
	// maxBatchTime bounds how long a batch has its slot: while lines of it are sent early,
	// a client may not read them.
	maxBatchTime = 2 * time.Second
	// lateLine is after which time lines are sent early.
	lateLine = 10 * time.Millisecond
	// perEntry is about how much a request of a batch holds that is not encoded.
	perEntry = 1 << 10
)

// batchSlot is the slot of a batch: from before it is decoded until its answer is encoded,
// or until one of its requests waits for tokens.
type batchSlot struct {
	freed chan struct{} // closed when the batch has no slot
	free  func()
}

type batchSlotKey struct{}

func (a *API) takeBatchSlot(s *scratch, r *http.Request) error {
	release, err := a.batches.Take(r.Context(), callerName(r))
	if err != nil {
		return err
	}
	slot := &batchSlot{freed: make(chan struct{})}
	slot.free = sync.OnceFunc(func() {
		close(slot.freed)
		release()
	})
	s.slot = slot
	return nil
}

// Waiting must be called when a request begins to wait for tokens, with its context. A batch
// then frees its slot, since the wait may be long.
func Waiting(ctx context.Context) {
	if slot, ok := ctx.Value(batchSlotKey{}).(*batchSlot); ok {
		slot.free()
	}
}

// withdrawn reports whether the caller of a batch has left. What the decisions have taken that
// are encoded and not sent is then given back, while the batch has its slot.
func (a *API) withdrawn(r *http.Request, s *scratch) bool {
	if r.Context().Err() == nil {
		return false
	}
	a.config.Withdraw(r.Context(), s.unsent...)
	s.unsent, s.answer = nil, s.answer[:0]
	return true
}

// send sends what is encoded of the answer to a batch, which holds so many bytes more.
func (a *API) send(w http.ResponseWriter, r *http.Request, s *scratch, more int) {
	for _, d := range s.unsent {
		*d = fluxgate.Decision{}
	}
	clear(s.unsent)
	s.unsent = s.unsent[:0]
	defer slots.ClientOf(r).AddResponse(r, cap(s.answer)+s.body.Cap()+more).Remove()
	_, _ = w.Write(s.answer) // the caller may have gone
	s.answer, s.began = s.answer[:0], true
}
