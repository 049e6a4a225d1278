package warnings_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/chaos"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
)

// receiver is a webhook that deduplicates by id, and is away at times.
type receiver struct {
	addr   string
	server *httptest.Server

	mu       sync.Mutex
	ids      map[string]bool
	keys     map[string]int
	arrived  map[string][]time.Time // by caller
	repeated int
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{addr: testenv.FreeAddr(t), ids: map[string]bool{}, keys: map[string]int{}, arrived: map[string][]time.Time{}}
	r.start(t)
	t.Cleanup(r.stop)
	return r
}

func (r *receiver) start(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", r.addr)
	do(t, err)
	r.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: r}}
	r.server.Start()
}

func (r *receiver) stop() {
	r.server.CloseClientConnections()
	r.server.Close()
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	var event struct{ ID, Identity, Key string }
	if err := json.NewDecoder(q.Body).Decode(&event); err != nil || event.ID == "" || event.Key == "" {
		http.Error(w, "no warning", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ids[event.ID] {
		r.repeated++
		return
	}
	r.ids[event.ID] = true
	user := strings.TrimPrefix(event.Identity, "user ")
	if user == "" { // a server names only the callers that it remembers
		user = event.Key
	}
	r.keys[event.Key]++
	r.arrived[user] = append(r.arrived[user], time.Now())
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.keys)
}

func (r *receiver) missing(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.arrived[user(i)]) == 0
}

// fleet is four servers that share Redis, with a limit of 100 that warns at 80 %.
type fleet struct {
	redis    *testenv.Server
	receiver *receiver
	daemons  []*chaos.Daemon
	clients  []*client.Client
}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{redis: testenv.StartStandalone(t, testenv.Config{}), receiver: startReceiver(t)}
	folder := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(folder, name)
		do(t, os.WriteFile(file, []byte(text), 0o600))
		return name + "=" + file
	}
	settings := []string{
		"redis.uri=" + f.redis.URI(), "redis.timeout=2s", "mongo.enabled=false", "server.max-body=1048576", "ratelimit.fallback-share=1",
		write("rules.file", "id: api-limits\nrules:\n  - {id: budget, limitScope: USER_ID, bands: [{label: month, kind: quota, capacity: 100, period: month, warnAt: [80%]}]}\n"),
		write("settle.receipt-secret-file", "a secret of servers that share"),
		"events.webhook=http://" + f.receiver.addr, "events.identities=true",
	}
	for range 4 {
		d := chaos.StartDaemon(t, "", settings...)
		f.daemons = append(f.daemons, d)
		c, err := client.New("http://"+d.Addr, client.Config{Timeout: time.Minute, OnFailure: rules.FailClosed})
		do(t, err)
		t.Cleanup(func() { _ = c.Close() })
		f.clients = append(f.clients, c)
	}
	return f
}

// each calls a function for callers from the first to before the last, some at once.
func each(first, last int, f func(i int)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := first; i < last; i++ {
		slots <- struct{}{}
		all.Go(func() {
			f(i)
			<-slots
		})
	}
	all.Wait()
}

// answered calls servers until one answers: one of them may be killed.
func (f *fleet) answered(t *testing.T, i int, call func(c *client.Client) error) {
	err := error(nil)
	for n := range 100 {
		if at := (i + n) % len(f.clients); f.daemons[at].Running() {
			if err = call(f.clients[at]); err == nil {
				return
			}
		}
	}
	t.Error("no server answers: ", err)
}

func user(i int) string { return "user-" + strconv.Itoa(i) }

// take crosses the threshold by a take. A take that was answered with an error may have been
// taken: the next one sees its level.
func (f *fleet) take(t *testing.T, i int) {
	f.answered(t, i, func(c *client.Client) error {
		d, err := c.Check(t.Context(), &fluxgate.Request{UserID: user(i), Cost: 80})
		if err == nil && d.Reason == fluxgate.ReasonStoreFailure {
			err = errors.New("no answer of the server")
		}
		return err
	})
}

// settle crosses it by a settlement.
func (f *fleet) settle(t *testing.T, i int) {
	var receipt *fluxgate.Receipt
	f.answered(t, i, func(c *client.Client) error {
		d, err := c.Check(t.Context(), &fluxgate.Request{UserID: user(i), Cost: 10})
		if err == nil && d.Receipt() == nil {
			err = fmt.Errorf("no receipt: %v", d.Reason)
		}
		receipt = d.Receipt()
		return err
	})
	f.answered(t, i, func(c *client.Client) error {
		_, err := c.Settle(t.Context(), receipt, 85)
		return err
	})
}

// delay is how long a warning takes from the request that causes it to the webhook.
func delay(t *testing.T, report *figure.Report) {
	f := startFleet(t)
	n := figure.Some(1_000)
	began := make([]time.Time, n)
	each(0, n, func(i int) {
		time.Sleep(200 * time.Millisecond) // 16 at once: 80 crossings in a second
		began[i] = time.Now()
		f.take(t, i)
	})
	testenv.Eventually(t, "all warnings have arrived", func() bool { return f.receiver.count() == n })
	var took []float64
	for i, at := range began {
		took = append(took, f.receiver.arrived[user(i)][0].Sub(at).Seconds())
	}
	slices.Sort(took)
	t.Logf("%d warnings: median %.2f s, slowest %.2f s", n, took[n/2], took[n-1])
	report.AtMost("warnings-delay-s", took[n*99/100], 2, " s")
}

// lost counts crossings without exactly one warning: by takes, settlements and charges after an
// outage of Redis, while the receiver is away for 30 s and one of the servers is killed.
func lost(t *testing.T, report *figure.Report) {
	f := startFleet(t)
	n := figure.Some(10_000)
	each(0, n/10, func(i int) { f.take(t, i) })
	f.receiver.stop()
	away := time.Now()
	each(n/10, n/2, func(i int) {
		if i == n/4 {
			if err := f.daemons[0].Kill(); err != nil {
				t.Error(err)
			}
		}
		f.take(t, i)
	})
	each(n/2, n*4/5, func(i int) { f.settle(t, i) })
	do(t, f.redis.Freeze())
	time.Sleep(figure.For(3 * time.Second)) // the servers notice
	each(n*4/5, n, func(i int) { f.take(t, i) })
	do(t, f.redis.Thaw())
	time.Sleep(time.Until(away.Add(figure.For(30 * time.Second))))
	f.receiver.start(t)
	back := time.Now()
	for f.receiver.count() < n && time.Since(back) < max(20*time.Second, figure.For(45*time.Second)) {
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("%d of %d callers %.1f s after the receiver was back", f.receiver.count(), n, time.Since(back).Seconds())
	// Takes that Redis executed after their deadline: their answers have reached no server. The
	// next request of the caller sees their level.
	report.Print("warnings-with-the-next-request", float64(n-f.receiver.count()), " of "+strconv.Itoa(n))
	each(0, n, func(i int) {
		if f.receiver.missing(i) {
			f.take(t, i)
		}
	})
	time.Sleep(5 * time.Second) // for those, and for others that arrive twice
	f.receiver.mu.Lock()
	defer f.receiver.mu.Unlock()
	missing, twice := n-len(f.receiver.keys), 0
	for _, warnings := range f.receiver.keys {
		if warnings > 1 {
			twice++
		}
	}
	t.Logf("posts that were repeated with the same id: %d", f.receiver.repeated)
	report.AtMost("warnings-lost", float64(missing), 0, " of "+strconv.Itoa(n))
	report.AtMost("warnings-twice", float64(twice), 0, " of "+strconv.Itoa(n))
}
