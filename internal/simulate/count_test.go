package simulate

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
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
		if k.limited == 0 {
			k.identity = fmt.Sprint(who)
			if !c.overflowed() {
				c.limited++
			}
		}
		k.requests++
		k.limited++
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

// A series keeps its sum and its bound, whatever times come.
func TestSeries_Bound(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	s := newSeries(logTime + 123)
	at, sum := logTime+123, int64(0)
	for i := range 100_000 {
		if at += random.Int64N(10 * second); i == 50_000 {
			at += maxMicros / 4
		}
		s.at(at).requests++
		sum++
	}
	var total int64
	for _, p := range s.points {
		total += p.requests
	}
	if total != sum || len(s.points) > maxPoints || s.start+s.step*int64(len(s.points)) <= at {
		t.Errorf("%d of %d in %d points of %s from %d", total, sum, len(s.points), stepText(s.step), s.start)
	}
}

// The page loads nothing, runs nothing and has a plot for each rule that limits.
func TestWriteHTML_SelfContained(t *testing.T) {
	var text strings.Builder
	for i := range 3_000 {
		text.WriteString(line(fmt.Sprint("192.0.2.", i%5), i, "/"))
	}
	r := replayed(t, Config{Proposed: perIP(t, 20), Current: perIP(t, 40)}, text.String())
	page := htmlOf(t, r)
	for _, want := range []string{
		`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">`, "prefers-color-scheme: dark", "<title>All requests</title>", "<title>Rule per-ip</title>",
		"newly limited", "Busiest minutes", "ip 192.0.2.4", "requests in 8s",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
	without := strings.ReplaceAll(page, "http://www.w3.org/2000/svg", "")
	for _, not := range []string{"<script", "://", "src=", "href=", "url(", "@import", "javascript:", "onload", "onclick", "ZgotmplZ", "NaN", "Inf"} {
		if strings.Contains(without, not) {
			t.Errorf("the page has %q", not)
		}
	}
	if n := strings.Count(page, "<svg"); n != 2 {
		t.Errorf("%d plots", n)
	}
}
