package simulate

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/fluxgate/fluxgate/store"
)

// Callers are counted exactly up to the bound. Beyond it the worst ones are still found,
// each within its error, and memory is bounded.
func TestCallers_Bound(t *testing.T) {
	c := callersOf(1_000)
	if c.most != 1_000 {
		t.Fatalf("at most %d", c.most)
	}
	random := rand.New(rand.NewPCG(3, 4))
	zipf := rand.NewZipf(random, 1.2, 1, 50_000)
	actual := map[uint64]int64{}
	for range 300_000 {
		who := zipf.Uint64()
		actual[who]++
		var id store.KeyID
		binary.BigEndian.PutUint64(id[:], who)
		k := c.of(id)
		if k.Limited == 0 {
			k.Identity = fmt.Sprint(who)
			if !c.overflowed() {
				c.limited++
			}
		}
		k.Requests++
		k.Limited++
		if len(c.all) > c.most || len(c.index) != len(c.all) {
			t.Fatalf("%d callers, %d in the index", len(c.all), len(c.index))
		}
	}
	if !c.overflowed() || c.distinct != 1_000 || c.limited != 1_000 {
		t.Errorf("%d callers, %d limited, more: %v", c.distinct, c.limited, c.overflowed())
	}
	for i, k := range c.worst(20) {
		var who uint64
		if _, err := fmt.Sscan(k.Identity, &who); err != nil || who > 30 {
			t.Errorf("number %d is %+v, which has %d", i, k, actual[who])
		}
		if n := actual[who]; k.Limited > n || k.Limited+k.Error < n {
			t.Errorf("%+v has %d", k, n)
		}
	}
}
