package failover_test

import (
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/store/failover"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/storetest"
)

// Over a store that answers, the decorator is a store like any other.
func TestConformance(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Backend {
		clock := storetest.NewClock()
		shared := fluxgate.Must(memstore.New(memstore.Config{Clock: clock.Now}))
		fallback := fluxgate.Must(memstore.New(memstore.Config{Clock: clock.Now}))
		return storetest.Backend{
			Store: failover.New(shared, fallback, failover.Config{}), Warnings: shared, Advance: clock.Advance,
		}
	})
}
