package lease_test

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// bounds are those that the package publishes.
var bounds = storetest.Leases{Time: lease.Time, Pause: lease.MaxPause, Share: 3}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Backend {
		clock, steady := storetest.NewClock(), storetest.NewClock()
		buckets := fluxgate.Must(memstore.New(memstore.Config{Clock: clock.Now}))
		gateway := func(testing.TB) store.Store {
			return lease.New(buckets, lease.Config{Now: steady.Now, Go: func(call func()) { call() }})
		}
		return storetest.Backend{
			Store: gateway(t), Warnings: buckets,
			Advance: func(d time.Duration) {
				clock.Advance(d)
				steady.Advance(max(0, d)) // that of a gateway does not step back
			},
			Gateway: gateway,
			Leases:  bounds,
		}
	})
}
