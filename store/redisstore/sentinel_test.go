package redisstore

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

func TestSentinel_Failover(t *testing.T) {
	const timeout = 300 * time.Millisecond
	group := testenv.StartSentinel(t, testenv.Config{})
	tr := newTrial(t, group.URI(), Config{Timeout: timeout}, group.Servers()...)
	for _, c := range []struct {
		name  string
		fault func(t *testing.T)
	}{
		{"the master is replaced", func(t *testing.T) {
			if _, err := group.Failover(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{"the master is killed", func(t *testing.T) {
			master, err := group.Master(t.Context())
			if err == nil {
				err = master.Kill()
			}
			if err == nil {
				_, err = group.WaitForNewMaster(t.Context(), master)
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := trialOf(t, tr.Store)
			band := rules.Band{Label: "shared", Capacity: 100, RefillTokens: 200, Refill: time.Second}
			shared, own := tr.demand(band), tr.demand(ample)
			crowd := tr.gather(crowdSize, 5*time.Millisecond, func(i int) []store.Demand {
				return []store.Demand{[]store.Demand{shared, own}[i%2]}
			})
			crowd.untilAllServed(time.Now())
			start := time.Now()
			c.fault(t)
			agreed := time.Since(start)
			recovery := crowd.untilAllServed(start.Add(agreed))
			if err := group.WaitHealthy(t.Context()); err != nil {
				t.Fatal(err)
			}
			settled := crowd.all()
			crowd.untilAsked(20 * crowdSize)
			crowd.stop()

			all := crowd.all()
			t.Logf("%d callers: the sentinels agreed after %v, all were served %v later; %d of %d calls failed, longest %v with a timeout of %v: %q",
				crowdSize, agreed.Round(time.Millisecond), recovery.Round(time.Millisecond), all.failed, all.asked, all.longest.Round(time.Millisecond), timeout, all.kinds())
			all.onlyUnavailable(t)
			if all.failed != settled.failed {
				t.Errorf("%d calls failed after the failover: %q", all.failed-settled.failed, all.kinds())
			}
			if all.longest > timeout+slack {
				t.Errorf("a call took %v", all.longest)
			}
			var passes []int64
			for i := range crowd.callers {
				if i%2 == 0 {
					passes = append(passes, crowd.callers[i].passes...)
				}
			}
			within(t, band, shared.Bands[0], passes, 1)
		})
	}
}
