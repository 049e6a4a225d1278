package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// soakLoad is callers that do everything that the API offers, in random order.
type soakLoad struct {
	scene     *soakScene
	seed      uint64
	callers   int
	perSecond int // of all callers together

	http   *http.Client
	counts [operations]atomic.Int64
	failed atomic.Int64
	first  atomic.Pointer[error]
}

// The operations of callers.
const (
	opCheck = iota
	opBatch
	opPeek
	opSettle
	opWait
	opLeave // the caller does not wait for the answer
	opReset
	operations
)

var operationNames = [operations]string{"checks", "batches", "peeks", "settlements", "waits", "aborted calls", "resets"}

// shares is how often each operation happens, of 100.
var shares = [operations]int{52, 8, 10, 12, 10, 6, 2}

func pick(r *rand.Rand) int {
	n := r.IntN(100)
	for op, share := range shares {
		if n < share {
			return op
		}
		n -= share
	}
	return opCheck
}

// send calls until ctx ends and every call has ended.
func (l *soakLoad) send(ctx context.Context) {
	defer l.http.CloseIdleConnections()
	var work sync.WaitGroup
	work.Go(func() {
		l.concurrently(func(caller int) {
			r := rand.New(rand.NewPCG(l.seed, uint64(caller)))
			for ctx.Err() == nil {
				l.one(context.WithoutCancel(ctx), r)
				pause(ctx, time.Duration(r.Int64N(2*int64(l.callers)*int64(time.Second)/int64(l.perSecond))))
			}
		})
	})
	work.Go(func() {
		for ctx.Err() == nil {
			if err := l.scene.rules.edit(); err != nil {
				l.fail(err)
			}
			pause(ctx, 300*time.Millisecond)
		}
	})
	work.Wait()
}

// concurrently calls f once for every caller.
func (l *soakLoad) concurrently(f func(caller int)) {
	var work sync.WaitGroup
	for caller := range l.callers {
		work.Go(func() { f(caller) })
	}
	work.Wait()
}

func (l *soakLoad) fail(err error) {
	l.failed.Add(1)
	l.first.CompareAndSwap(nil, &err)
}

var soakPaths = []string{"/everyone/a", "/orders/1", "/strict/x", "/kinds/a", "/other"}

// queuePath is where requests wait for tokens.
const queuePath = "/queue/a"

const soakUsers = 1_000

// body returns a request of a random user.
func body(r *rand.Rand, path, more string) string {
	return bodyOf(r.IntN(soakUsers), path, 1+r.IntN(3), more)
}

func bodyOf(user int, path string, cost int, more string) string {
	return fmt.Sprintf(`{"userId":"user-%d","apiKey":"key-%d","ip":"192.0.2.%d","method":"GET","path":%q,"cost":%d%s}`,
		user, user%50, user%200, path, cost, more)
}

// everyone sends a request of every user to every path. What the server keeps of callers is then
// there, however few requests a busy machine sends.
func (l *soakLoad) everyone(ctx context.Context) {
	for _, path := range append([]string{queuePath}, soakPaths...) {
		const most = 100 // in a batch
		for first := 0; first < soakUsers; first += most {
			bodies := make([]string, most)
			for i := range bodies {
				bodies[i] = bodyOf(first+i, path, 1, "")
			}
			l.must(l.post(ctx, "http://"+l.scene.daemon.Addr+"/v1/check:batch", `{"requests":[`+strings.Join(bodies, ",")+`]}`))
		}
	}
}

// one makes one call. Checks have an answer whatever happens to Redis; settling and
// resetting may fail, since nothing replaces the store for them.
func (l *soakLoad) one(ctx context.Context, r *rand.Rand) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	op, path := pick(r), soakPaths[r.IntN(len(soakPaths))]
	l.counts[op].Add(1)
	check := "http://" + l.scene.daemon.Addr + "/v1/check"
	switch op {
	case opCheck:
		l.must(l.post(ctx, check, body(r, path, "")))
	case opBatch:
		l.must(l.post(ctx, check+":batch", `{"requests":[`+strings.Repeat(body(r, path, "")+",", 4)+body(r, path, "")+`]}`))
	case opPeek:
		l.must(l.post(ctx, check, body(r, path, `,"peek":true`)))
	case opWait:
		l.must(l.post(ctx, check, body(r, queuePath, `,"timeoutMs":1500`)))
	case opSettle:
		l.settle(ctx, l.receipt(ctx, body(r, path, "")), r.IntN(5))
	case opLeave:
		short, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(20_000))*time.Microsecond)
		defer cancel()
		_, _, _ = l.post(short, check, body(r, queuePath, `,"timeoutMs":1500`))
	case opReset:
		l.reset(ctx, r.IntN(soakUsers))
	}
}

// receipt checks, and returns the receipt if the request was admitted.
func (l *soakLoad) receipt(ctx context.Context, body string) string {
	var said struct{ Receipt string }
	_ = json.Unmarshal(l.must(l.post(ctx, "http://"+l.scene.daemon.Addr+"/v1/check", body)), &said) // must has counted a failure
	return said.Receipt
}

func (l *soakLoad) settle(ctx context.Context, receipt string, actual int) {
	if receipt != "" {
		l.may5xx(l.post(ctx, "http://"+l.scene.daemon.Addr+"/v1/settle", fmt.Sprintf(`{"receipt":%q,"actual":%d}`, receipt, actual)))
	}
}

func (l *soakLoad) reset(ctx context.Context, user int) {
	l.may5xx(l.post(ctx, "http://"+l.scene.daemon.Admin+"/v1/rule-sets/"+ruleSetID+"/buckets/reset",
		fmt.Sprintf(`{"rule":"per-user","request":{"userId":"user-%d","path":"/other"}}`, user)))
}

func (l *soakLoad) post(ctx context.Context, url, text string) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return exchange(l.http, req)
}

// must counts a call that was not answered with 200.
func (l *soakLoad) must(status int, answer []byte, err error) []byte {
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %.200s", status, answer)
	}
	if err != nil {
		l.fail(err)
		return nil
	}
	return answer
}

// may5xx counts a call without an answer, or with one that says the call was wrong.
func (l *soakLoad) may5xx(status int, answer []byte, err error) {
	if err == nil && status >= http.StatusBadRequest && status < http.StatusInternalServerError {
		err = fmt.Errorf("status %d: %.200s", status, answer)
	}
	if err != nil {
		l.fail(err)
	}
}

// String returns what was done.
func (l *soakLoad) String() string {
	var parts []string
	for op, name := range operationNames {
		parts = append(parts, fmt.Sprintf("%d %s", l.counts[op].Load(), name))
	}
	return strings.Join(parts, ", ")
}
