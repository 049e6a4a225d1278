package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/wire"
)

const (
	// defaultBatch is below the default of server.max-batch.
	defaultBatch = 64
	// maxBatchBytes bounds the body of a batch: a server limits how many larger
	// ones it reads at the same time.
	maxBatchBytes = 16 << 10
	batchStart    = `{"requests":[`
)

// decideShared decides a check, alone or with those of other callers.
func (c *Client) decideShared(ctx context.Context, body []byte) (wire.Decision, error) {
	t := c.queue.wait(ctx, body)
	switch {
	case t.alone != nil:
		defer t.alone()
		var answer wire.Decision
		err := c.exchangeJSON(ctx, c.check, body, &answer)
		return answer, err
	case t.err != nil:
		return wire.Decision{}, t.err
	case t.entry.Status != 0:
		var reason fluxgate.Reason
		if t.entry.Status == http.StatusNotFound { // the only 404 that an entry has
			reason = fluxgate.ReasonNoRuleSet
		}
		return wire.Decision{}, &StatusError{Status: t.entry.Status, Detail: line(t.entry.Error), reason: reason}
	}
	return t.entry.Decision, nil
}

// sendBatch sends the checks of several callers in one request and passes the
// answers on as they arrive. If the server refuses the batch it has decided nothing:
// each check is then sent alone.
func (c *Client) sendBatch(ctx context.Context, b *call, end func()) {
	defer b.cancel()
	unwanted, err := c.readBatch(ctx, b)
	t := turn{err: err}
	if refusesBatch(err) {
		c.queue.refuse(len(b.checks))
		t.alone = func() {}
	}
	for _, p := range b.checks {
		c.queue.answer(p, t) // those without an answer
	}
	// Callers that were just answered often have another check at once. Let them
	// share the next request instead of the one after.
	runtime.Gosched()
	end()
	for _, receipt := range unwanted {
		_, _ = c.Settle(context.Background(), receipt, 0) // Failed is called
	}
}

// readBatch returns the receipts of callers that have left, and the error of the
// checks without an answer.
func (c *Client) readBatch(ctx context.Context, b *call) (unwanted []*fluxgate.Receipt, err error) {
	response, err := c.exchange(ctx, c.batch, joined(b.checks), linesType)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxAnswer)
	var got wire.Line
	for range b.checks {
		if !lines.Scan() {
			break
		}
		if wire.ReadLine(lines.Bytes(), &got) != nil || got.Index < 0 || got.Index >= len(b.checks) {
			return unwanted, errNotAnswer
		}
		if c.queue.answer(b.checks[got.Index], turn{entry: got.Entry}) && got.Entry.Receipt != "" {
			unwanted = append(unwanted, &fluxgate.Receipt{Token: got.Entry.Receipt})
		}
	}
	lines.Scan() // to the end, so that the connection is reused
	if err := lines.Err(); err != nil {
		return unwanted, fmt.Errorf("reading the answer: %w", c.broken(reason(ctx, err)))
	}
	return unwanted, errNotAnswer
}

// joined is the body of a batch.
func joined(checks []*pendingCheck) []byte {
	size := len(batchStart) + len(checks) + 1
	for _, p := range checks {
		size += len(p.body)
	}
	body := append(make([]byte, 0, size), batchStart...)
	for i, p := range checks {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, p.body...)
	}
	return append(body, `]}`...)
}

// refusesBatch reports whether a server answers that it does not accept a batch: it
// is too large, or the server knows none.
func refusesBatch(err error) bool {
	var refused *StatusError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge:
		return true
	}
	return false
}
