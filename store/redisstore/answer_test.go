package redisstore

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// Any input is refused, or is an answer that the script could have given.
func FuzzAnswer(f *testing.F) {
	two := exactBands(f, rules.PerMinute(10), rules.PerHour(1_000))
	make3 := func() *scriptCall {
		take, peek, settle := newShardRequest(opTake, 0, time.Time{}), newShardRequest(opPeek, 0, time.Time{}), newShardRequest(opSettle, 0, time.Time{})
		take.demands = []store.Demand{{Bands: two, Cost: 3, MaxWait: time.Second}, {Bands: two[:1], Cost: 1, Shadow: true}}
		take.keys = []string{"a", "b"}
		peek.demands, peek.keys = []store.Demand{{Bands: two[1:], Cost: 1}}, []string{"c"}
		settle.takes, settle.actual, settle.keys = []store.Taken{{Bands: two, Cost: 3}}, []int64{1}, []string{"a"}
		return &scriptCall{batch: []*shardRequest{take, settle, peek}}
	}
	whole := appendDoubles(nil, 1_700_000_000_123_456)
	whole = append(whole, 1, 0)
	whole = appendDoubles(whole, 0, two[1].Unit)
	whole = appendDoubles(append(whole, 0), two[0].Limit)
	whole = appendDoubles(append(whole, 1, 0), 0)
	whole = appendDoubles(whole, -2)
	f.Add(string(whole))
	f.Add(string(whole[:len(whole)-1]))
	f.Add("")
	f.Add(string(appendDoubles(nil, 1)) + "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff")
	f.Fuzz(func(t *testing.T, reply string) {
		c := make3()
		c.build(0)
		rest, err := c.read(reply)
		if err != nil {
			return
		}
		if len(rest) > len(reply) {
			t.Fatalf("%d bytes are left of %d", len(rest), len(reply))
		}
		for _, r := range c.batch {
			if r.op == opSettle {
				continue
			}
			for _, s := range r.statuses {
				if s > store.Unavailable || s == store.Unavailable && !r.unreadable {
					t.Fatalf("status %d", s)
				}
			}
			for _, level := range r.levels {
				if level < 0 || level > bucket.MaxUnits {
					t.Fatalf("level %d", level)
				}
			}
			var out store.Outcome
			out.Prepare(r.demands)
			r.fill(&out, nil)
			for i, result := range out.Results {
				for j, b := range result.Bands {
					if b.Remaining < 0 || b.Remaining > r.demands[i].Bands[j].Capacity {
						t.Fatalf("%d tokens left of %d", b.Remaining, r.demands[i].Bands[j].Capacity)
					}
				}
			}
			r.withdrawal()
		}
	})
}
