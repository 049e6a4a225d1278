package check

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/server/access"
)

// batchBody is several requests, each decided by itself.
type batchBody struct {
	Requests requests `json:"requests"`
}

// requests are decoded one after the other: an empty one has two bytes, and takes 200 times
// as many once it is decoded.
type requests struct {
	list      []wire.Request
	most      int   // requests
	mostBytes int64 // of a request
	// Nothing is decoded after these.
	tooMany, tooLarge bool
}

// UnmarshalJSON reads a list of requests. To its errors the decoder adds the path.
func (r *requests) UnmarshalJSON(text []byte) error {
	r.list = nil
	if text[0] != '[' {
		return json.Unmarshal(text, &r.list) // null, or an error
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	_, err := dec.Token()
	for err == nil && dec.More() && !r.tooMany && !r.tooLarge {
		start := dec.InputOffset()
		var one *wire.Request
		if err = dec.Decode(&one); err != nil {
			break
		}
		if one == nil {
			return &json.UnmarshalTypeError{Value: "null", Type: reflect.TypeFor[wire.Request]()}
		}
		r.list = append(r.list, *one)
		r.tooMany, r.tooLarge = len(r.list) > r.most, dec.InputOffset()-start > r.mostBytes
	}
	return err
}

// batchEntry is one request of a batch and its answer.
type batchEntry struct {
	request  fluxgate.Request
	decision fluxgate.Decision
	invalid  *problem // it is not decided
	err      error
}

// batch decides several requests concurrently, so that they share calls of the
// store. An invalid request does not prevent the others from being decided.
func (a *API) batch(w http.ResponseWriter, r *http.Request) {
	s := scratches.Get().(*scratch)
	defer s.release()
	asked, p := a.readBatch(s, r)
	if p != nil {
		p.write(w, r)
		return
	}
	defer time.AfterFunc(maxBatchTime, s.slot.free).Stop()
	entries := make([]batchEntry, len(asked))
	decided := a.decideAll(context.WithValue(r.Context(), batchSlotKey{}, s.slot), asked, entries)
	if strings.Contains(r.Header.Get("Accept"), wire.Lines) {
		w.Header()["Content-Type"] = linesType
		a.encodeLines(w, r, s, entries, decided)
	} else {
		w.Header()["Content-Type"] = jsonType
		a.encodeDocument(r, s, entries, decided)
	}
	if a.withdrawn(r, s) {
		if !s.began {
			callerLeft().write(w, r)
		}
		return
	}
	s.slot.free()
	a.send(w, r, s, 0)
}

// readBatch reads the requests of a batch.
func (a *API) readBatch(s *scratch, r *http.Request) ([]wire.Request, *problem) {
	asked := batchBody{Requests: requests{most: a.config.MaxBatch, mostBytes: a.config.MaxBody}}
	p := a.read(s, r, min(a.config.MaxBody*int64(a.config.MaxBatch), 1<<20), &asked)
	switch all := asked.Requests; {
	case p != nil:
	case len(all.list) == 0:
		p = badRequest("requests: must be 1 to %d, not 0", a.config.MaxBatch)
	case all.tooMany:
		p = badRequest("requests: must be 1 to %d, not more", a.config.MaxBatch)
	case all.tooLarge:
		p = newProblem(http.StatusRequestEntityTooLarge, "Each request must have at most %d bytes.", a.config.MaxBody)
	}
	return asked.Requests.list, p
}

// decideAll starts to decide requests. The channel receives the index of each when
// its entry has the answer.
func (a *API) decideAll(ctx context.Context, asked []wire.Request, entries []batchEntry) <-chan int {
	decided, who := make(chan int, len(asked)), access.From(ctx)
	for i := range asked {
		e := &entries[i]
		if err := asked[i].To(&e.request); err != nil {
			e.invalid = badRequest("%v", err)
		} else if !a.allowed(who, asked[i].RuleSet) {
			e.invalid = forbidden("ruleSet")
		}
		if e.invalid != nil {
			decided <- i // has room for all
			continue
		}
		go func() {
			growStack()
			e.decision, e.err = a.guarded(ctx, &asked[i], &e.request)
			if e.err == nil { // or the limiter may still hold it
				asked[i], e.request = wire.Request{}, fluxgate.Request{} // others of the batch may wait
			}
			decided <- i
		}()
	}
	return decided
}

// encodeDocument encodes the answers in the order of the requests.
func (a *API) encodeDocument(r *http.Request, s *scratch, entries []batchEntry, decided <-chan int) {
	for range entries {
		<-decided
	}
	s.answer = append(s.answer[:0], `{"decisions":[`...)
	for i := range entries {
		if i > 0 {
			s.answer = append(s.answer, ',')
		}
		s.answer = a.appendEntry(s, r, &entries[i])
	}
	s.answer = append(s.answer, `]}`...)
}

// encodeLines encodes a line for each request. If some take long the lines of the others
// are sent as soon as they are decided. Before that no write may block, because the batch
// has a slot.
func (a *API) encodeLines(w http.ResponseWriter, r *http.Request, s *scratch, entries []batchEntry, decided <-chan int) {
	freed, late := s.slot.freed, time.After(lateLine)
	for early, left := false, len(entries); left > 0; {
		select {
		case i := <-decided:
			s.answer = strconv.AppendInt(append(s.answer, `{"index":`...), int64(i), 10)
			s.answer = append(s.answer, `,"decision":`...)
			s.answer = a.appendEntry(s, r, &entries[i])
			s.answer = append(s.answer, '}', '\n')
			left--
		case <-freed:
			early, freed = true, nil
		case <-late:
			early = true
		}
		if early && left > 0 && len(decided) == 0 && len(s.answer) > 0 && !a.withdrawn(r, s) {
			a.send(w, r, s, left*perEntry)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

var linesType = []string{wire.Lines}

// appendEntry appends the answer to one request of a batch.
func (a *API) appendEntry(s *scratch, r *http.Request, e *batchEntry) []byte {
	p := e.invalid
	if e.err != nil {
		p = a.failure(r, &e.request, e.err)
	}
	if p != nil {
		return wire.AppendError(s.answer, p.Status, p.Detail)
	}
	s.unsent = append(s.unsent, &e.decision)
	return wire.Append(s.answer, &e.decision, a.config.Issuer.Issue(e.decision.Receipt()))
}

// guarded is decide with a recover: on a goroutine of its own a panic would end
// the process.
func (a *API) guarded(ctx context.Context, asked *wire.Request, request *fluxgate.Request) (d fluxgate.Decision, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("deciding a request of a batch: panic: %v", p)
		}
	}()
	return a.decide(ctx, asked, request)
}

// growStack makes the stack of a new goroutine large enough for a decision. It grows
// once, while there is little to copy: on the way down it would grow three times.
//
//go:noinline
func growStack() {
	var room [10 << 10]byte
	runtime.KeepAlive(&room)
}
