package httplimit_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// oneAtOnce is a rule that admits one request at the same time.
func oneAtOnce(hold time.Duration) []rules.Rule {
	return []rules.Rule{{ID: "slots", Bands: []rules.Band{{Kind: rules.Concurrency, Capacity: 1, Hold: hold}}}}
}

// slots is a server that admits one request at the same time.
func slots(t testing.TB, hold time.Duration, handler http.HandlerFunc, options ...httplimit.Option) (engine *fluxgate.Engine, address string) {
	t.Helper()
	engine = engineOver(t, fluxgate.Must(memstore.New(memstore.Config{})), oneAtOnce(hold))
	server := httptest.NewUnstartedServer(newLimit(t, engine, options...)(handler))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of the panics
	server.Start()
	t.Cleanup(server.Close)
	return engine, server.URL
}

func freeSlots(t testing.TB, engine *fluxgate.Engine) int64 {
	t.Helper()
	d, err := engine.Check(t.Context(), &fluxgate.Request{Peek: true})
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// A slot is released when the response ends, however it ends.
func TestHold_ReleasedAtTheEnd(t *testing.T) {
	for name, end := range map[string]func(http.ResponseWriter, *http.Request){
		"it returns":          func(http.ResponseWriter, *http.Request) {},
		"it panics":           func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"it settles itself":   func(_ http.ResponseWriter, r *http.Request) { _, _ = httplimit.Settle(r.Context(), 0) },
		"its client has left": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			entered := make(chan struct{}, 1)
			engine, address := slots(t, time.Hour, func(w http.ResponseWriter, r *http.Request) {
				entered <- struct{}{}
				end(w, r)
			}, httplimit.WithSettling(true))
			for range 3 {
				ctx, leave := context.WithCancel(t.Context())
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					if response, err := http.DefaultClient.Do(request); err == nil {
						_ = response.Body.Close()
					}
				}()
				<-entered
				leave()
				<-done
				testenv.Eventually(t, "the slot is free", func() bool { return freeSlots(t, engine) == 1 })
			}
			http.DefaultClient.CloseIdleConnections()
		})
	}
}

// holding serves one request in a goroutine of a synctest bubble, with at most one at the
// same time.
func holding(t *testing.T, hold time.Duration, handler func(engine *fluxgate.Engine), options ...httplimit.Option) *fluxgate.Engine {
	t.Helper()
	engine := engineOver(t, fluxgate.Must(memstore.New(memstore.Config{})), oneAtOnce(hold))
	limited := newLimit(t, engine, options...)(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handler(engine) }))
	go limited.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	synctest.Wait()
	return engine
}

// A slot that is lost while a request goes on is reported.
func TestHold_Lost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observer := new(recorder)
		holding(t, time.Minute, func(engine *fluxgate.Engine) {
			if err := engine.Reset(t.Context(), store.Key{RuleSet: "api"}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute) // until it is renewed
		}, httplimit.WithObserver(observer))
		time.Sleep(2 * time.Minute)
		observer.mu.Lock()
		defer observer.mu.Unlock()
		if !errors.Is(errors.Join(observer.errs...), fluxgate.ErrNotHeld) {
			t.Errorf("reported %v", observer.errs)
		}
	})
}

// A request that has lost the slot of one rule keeps that of another, and the loss is
// reported once.
func TestHold_LostInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hold = time.Minute
		rules := append(oneAtOnce(hold), oneAtOnce(hold)...)
		rules[0].ID = "reset"
		engine := engineOver(t, fluxgate.Must(memstore.New(memstore.Config{})), rules)
		free := func(rule string) int64 {
			d, err := engine.Check(t.Context(), &fluxgate.Request{Peek: true})
			if err != nil {
				t.Fatal(err)
			}
			for b := range d.Bands() {
				if b.Rule.ID == rule {
					return b.Remaining
				}
			}
			t.Fatalf("rule %s did not decide", rule)
			return 0
		}
		observer := new(recorder)
		limited := newLimit(t, engine, httplimit.WithObserver(observer))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(10 * hold) }))
		go limited.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		synctest.Wait()
		if err := engine.Reset(t.Context(), store.Key{RuleSet: "api", Rule: "reset"}); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); time.Since(began) < 9*hold; time.Sleep(hold / 7) {
			if reset, other := free("reset"), free("slots"); reset != 1 || other != 0 {
				t.Errorf("after %v %d slots of the rule that was reset are free, and %d of the other, want 1 and 0", time.Since(began), reset, other)
				break
			}
		}
		time.Sleep(2 * hold)
		if free("slots") != 1 {
			t.Error("the slot is not free after the request has ended")
		}
		observer.mu.Lock()
		defer observer.mu.Unlock()
		if len(observer.errs) != 1 || !errors.Is(observer.errs[0], fluxgate.ErrNotHeld) {
			t.Errorf("reported %v", observer.errs)
		}
	})
}

// A request that goes on for longer than the hold keeps its slot.
func TestHold_RenewedWhileItStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hold = time.Minute
		engine := holding(t, hold, func(*fluxgate.Engine) { time.Sleep(10 * hold) })
		for began := time.Now(); time.Since(began) < 9*hold; time.Sleep(hold / 7) {
			if freeSlots(t, engine) != 0 {
				t.Fatalf("the slot is free %v after it was taken", time.Since(began))
			}
		}
		time.Sleep(2 * hold)
		if freeSlots(t, engine) != 1 {
			t.Error("the slot is not free after the request has ended")
		}
	})
}

// A request that costs nothing takes no slot, and has none to renew.
func TestHold_ZeroCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		observer := new(recorder)
		holding(t, time.Minute, func(engine *fluxgate.Engine) {
			if freeSlots(t, engine) != 1 {
				t.Error("it holds a slot")
			}
			time.Sleep(time.Minute)
		}, httplimit.WithObserver(observer), httplimit.WithCostFunc(func(*http.Request) int64 { return 0 }))
		time.Sleep(2 * time.Minute)
		if len(observer.errs) > 0 {
			t.Errorf("reported %v", observer.errs)
		}
	})
}
