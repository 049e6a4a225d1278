package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/server/receipt"
)

const (
	// How many settlements are sent or wait, and how many bytes those hold that wait.
	maxSettlements  = 10_000
	maxWaitingBytes = 32 << 20
	// perWaiting is about how much one holds besides its text.
	perWaiting = 512
	// maxSending bounds how many are sent at once after an outage. They share calls of Redis.
	maxSending = 16
	// laterPause is how long to wait before the ledger is asked again.
	laterPause = 250 * time.Millisecond
	// manySilences is after how many calls in a row without an answer settlements wait at once. A
	// ledger may answer for some receipts only: those whose part of a cluster is available.
	manySilences = 8
)

// later has the settlements that wait until the ledger of receipts answers. It knows each
// receipt that is being settled, so that one which waits is not accepted twice. The ledger
// decides between servers. A rule set has at most as many settlements as there is room left:
// alone it takes half of the room, and others always have some.
type later struct {
	log  *slog.Logger
	wake chan struct{} // has an element while some may wait

	silences atomic.Int64 // calls without an answer since the last answer
	retry    atomic.Int64 // when the ledger is asked again after manySilences, in Unix nanoseconds

	mu      sync.Mutex
	entered map[receipt.ID]string // the rule set of each
	of      map[string]share      // by rule set
	all     share
	waiting []*settlement // to be sent in this order
	// sent and lost count those that have waited since none waited.
	sent, lost int64
	// lostTakes counts the takes of all that were lost since the start.
	lostTakes int64
}

// share is what the settlements of a rule set hold: a receipt has one take for each rule.
type share struct{ n, waiting, takes, bytes int }

func (s share) plus(more share) share {
	return share{s.n + more.n, s.waiting + more.waiting, s.takes + more.takes, s.bytes + more.bytes}
}

// settlement is one that waits.
type settlement struct {
	id            receipt.ID
	ruleSet, call string
	takes         int
	text          []byte // a wire.Settle, which is smaller than what it is decoded to
}

func (s *settlement) bytes() int { return len(s.text) + perWaiting }

func newLater(log *slog.Logger) *later {
	return &later{log: log, wake: make(chan struct{}, 1), entered: map[receipt.ID]string{}, of: map[string]share{}}
}

// away reports whether the ledger has not answered for so long that settlements wait at once.
func (l *later) away() bool {
	return l.silences.Load() >= manySilences && time.Now().UnixNano() < l.retry.Load()
}

// answered notes that the ledger has answered.
func (l *later) answered() {
	if l.silences.Load() != 0 {
		l.silences.Store(0)
	}
}

// silent notes that the ledger has not answered a call that a caller waited for.
func (l *later) silent() {
	l.retry.Store(time.Now().Add(laterPause).UnixNano())
	l.silences.Add(1)
}

// enter begins to settle a claim, and reports whether it may wait. A receipt that is being
// settled is refused.
func (l *later) enter(c *receipt.Claim) (entered bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, again := l.entered[c.ID]; again {
		return false, receipt.ErrSpent
	}
	if l.of[c.RuleSet].n >= maxSettlements-l.all.n {
		return false, nil
	}
	l.entered[c.ID] = c.RuleSet
	l.add(c.RuleSet, share{n: 1})
	return true, nil
}

// leave ends a settlement that does not wait.
func (l *later) leave(id receipt.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(l.entered[id], share{n: -1})
	delete(l.entered, id)
}

// add adds to what the settlements of a rule set hold. The lock is held.
func (l *later) add(ruleSet string, s share) {
	l.all = l.all.plus(s)
	if l.of[ruleSet] = l.of[ruleSet].plus(s); l.of[ruleSet].n == 0 {
		delete(l.of, ruleSet)
	}
}

// park lets a settlement that has entered wait, since the ledger did not answer. If there is no
// room it leaves.
func (l *later) park(c *receipt.Claim, text []byte, cause error) (parked bool) {
	s := &settlement{c.ID, c.RuleSet, c.Call, len(c.Receipt.Takes), text}
	first, kept := l.keep(s)
	if !kept {
		l.leave(c.ID)
		return false
	}
	if first {
		l.log.Warn("the ledger of receipts does not answer: settlements wait until it does", "error", cause)
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return true
}

// keep adds a settlement to those that wait, and reports whether it is the only one.
func (l *later) keep(s *settlement) (first, kept bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[s.ruleSet].bytes+s.bytes() > maxWaitingBytes-l.all.bytes {
		return false, false
	}
	l.add(s.ruleSet, share{waiting: 1, takes: s.takes, bytes: s.bytes()})
	l.waiting = append(l.waiting, s)
	return l.all.waiting == 1 && l.sent+l.lost == 0, true
}

// next removes the settlements to be sent next.
func (l *later) next() []*settlement {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.waiting), maxSending)
	next := l.waiting[:n:n]
	if l.waiting = l.waiting[n:]; len(l.waiting) == 0 {
		l.waiting = nil
	}
	return next
}

// again lets a settlement wait once more, after all others: the ledger may answer for them.
func (l *later) again(s *settlement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, s)
}

// done forgets a settlement that has waited.
func (l *later) done(s *settlement, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sent++; lost {
		l.sent--
		l.lost++
		l.lostTakes += int64(s.takes)
	}
	delete(l.entered, s.id)
	l.add(s.ruleSet, share{-1, -1, -s.takes, -s.bytes()})
}

// ended logs that no settlement waits any more.
func (l *later) ended() {
	l.mu.Lock()
	sent, lost := l.sent, l.lost
	l.sent, l.lost = 0, 0
	l.mu.Unlock()
	if sent+lost > 0 {
		l.log.Info("the ledger of receipts answers: settlements that waited were sent", "sent", sent, "lost", lost)
	}
}

// Waiting returns how many settlements of takes wait until the ledger of receipts answers, and how
// many were lost since the start: their receipts expired before, or could not be settled.
func (a *API) Waiting() (waiting, lost int64) {
	a.later.mu.Lock()
	defer a.later.mu.Unlock()
	return int64(a.later.all.takes), a.later.lostTakes
}

// Run settles what waits until the ledger of receipts answers. It returns when ctx ends.
func (a *API) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.later.wake:
		}
		for !a.sendWaiting(ctx) {
			if background.Sleep(ctx, laterPause) != nil {
				return
			}
		}
		a.later.ended()
	}
}

// sendWaiting sends the settlements that wait, until the ledger answers for none of them. It
// reports whether none waits any more.
func (a *API) sendWaiting(ctx context.Context) bool {
	for {
		next := a.later.next()
		if len(next) == 0 {
			return true
		}
		var all sync.WaitGroup
		var silent atomic.Int64
		for _, s := range next {
			all.Go(func() {
				err := a.settleWaiting(ctx, s)
				if errors.Is(err, errNoAnswer) || errors.Is(err, receipt.ErrDenied) {
					silent.Add(1)
					a.later.again(s)
					return
				}
				if !errors.Is(err, receipt.ErrExpired) {
					a.later.answered()
				}
				a.later.done(s, err != nil && !errors.Is(err, receipt.ErrSpent)) // or settled at another server
			})
		}
		all.Wait()
		if silent.Load() == int64(len(next)) {
			return false
		}
	}
}

// settleWaiting settles what has waited.
func (a *API) settleWaiting(ctx context.Context, s *settlement) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: panic: %v", errUnsettled, p)
		}
	}()
	var asked wire.Settle
	var usage fluxgate.Usage
	_ = json.Unmarshal(s.text, &asked) // it was decoded before
	if asked.Usage != nil {
		_ = asked.Usage.To(&usage) // the same
	}
	claim, err := a.config.Issuer.Claim(asked.Receipt, func(string) bool { return true })
	if err != nil {
		return err
	}
	claim.Call = s.call
	_, err = a.redeem(ctx, claim, &asked, &usage, laterTimeout)
	return err
}
