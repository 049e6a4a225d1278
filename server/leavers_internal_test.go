package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/meter"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// leaving is a limiter whose callers leave when a request is decided.
type leaving struct {
	meter.Limiter
	leave context.CancelFunc
}

func (l leaving) Check(ctx context.Context, req *fluxgate.Request) (fluxgate.Decision, error) {
	defer l.leave()
	return l.Limiter.Check(ctx, req)
}

func (l leaving) CheckAll(ctx context.Context, reqs []fluxgate.Request) (fluxgate.Decision, []fluxgate.Decision, error) {
	defer l.leave()
	return l.Limiter.CheckAll(ctx, reqs)
}

// What is taken for a caller that has left is given back, except what counts that which has
// happened already: overdrafts and counted hits.
func TestLeavers_Decided(t *testing.T) {
	hour := []rules.Band{{Capacity: 10, Refill: time.Hour}}
	engine := fluxgate.Must(fluxgate.New(fluxgate.Must(memstore.New(memstore.Config{})), fluxgate.Static(fluxgate.Must(rules.NewSet("api",
		rules.Rule{ID: "slots", Bands: []rules.Band{{Kind: rules.Concurrency, Capacity: 10, Hold: time.Minute}}},
		rules.Rule{ID: "requests", Bands: hour},
		rules.Rule{ID: "used", Paths: []string{"/used"}, Bands: hour, Overdraft: true},
		rules.Rule{ID: "counted", Paths: []string{"/used"}, Bands: []rules.Band{{Kind: rules.Quota, Capacity: 10, Period: "year"}}, CountRefused: true},
	)))))
	for name, c := range map[string]struct {
		path      string
		all       bool
		withdrawn int
		left      map[string]int64
	}{
		"a request":            {"/", false, 1, map[string]int64{"slots": 10, "requests": 10}},
		"a call of Envoy":      {"/", true, 1, map[string]int64{"slots": 10, "requests": 10}},
		"what was used, again": {"/used", true, 1, map[string]int64{"slots": 10, "requests": 10, "used": 9, "counted": 9}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			withdrawn := 0
			l := &leavers{leaving{engine, leave}, func() { withdrawn++ }}
			req := fluxgate.Request{Path: c.path}
			var err error
			if c.all {
				_, _, err = l.CheckAll(ctx, []fluxgate.Request{req})
			} else {
				_, err = l.Check(ctx, &req)
			}
			if !errors.Is(err, context.Canceled) || withdrawn != c.withdrawn {
				t.Errorf("%v, %d withdrawn, want %d", err, withdrawn, c.withdrawn)
			}
			d, err := engine.Check(t.Context(), &fluxgate.Request{Path: c.path, Peek: true})
			if err != nil {
				t.Fatal(err)
			}
			for b := range d.Bands() {
				if b.Remaining != c.left[b.Rule.ID] {
					t.Errorf("%s: %d left, want %d", b.Rule.ID, b.Remaining, c.left[b.Rule.ID])
				}
			}
		})
	}
}

// A caller that stays keeps what was taken.
func TestLeavers_Staying(t *testing.T) {
	engine := fluxgate.Must(fluxgate.New(fluxgate.Must(memstore.New(memstore.Config{})), fluxgate.Static(fluxgate.Must(rules.NewSet("api",
		rules.Rule{ID: "requests", Bands: []rules.Band{rules.PerHour(2)}})))))
	l := &leavers{engine, func() { t.Error("withdrawn") }}
	for _, want := range []int64{1, 0} {
		if d, err := l.Check(t.Context(), new(fluxgate.Request)); err != nil || d.Remaining != want {
			t.Errorf("%d left, want %d, %v", d.Remaining, want, err)
		}
	}
}
