package lease_test

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Backend {
		clock, steady := storetest.NewClock(), storetest.NewClock()
		store := fluxgate.Must(memstore.New(memstore.Config{Clock: clock.Now}))
		return storetest.Backend{
			Store: lease.New(store, lease.Config{Now: steady.Now}),
			Advance: func(d time.Duration) {
				clock.Advance(d)
				steady.Advance(max(0, d)) // that of a gateway does not step back
			},
		}
	})
}
