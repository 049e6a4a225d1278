package model

import (
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// zones are some with a period that begins at another moment: at half an hour, or before UTC.
var zones = []string{"", "America/New_York", "Asia/Kathmandu", "Europe/Berlin"}

// clocks gives some histories gateways with wrong clocks, and quotas by days, weeks and months of time
// zones, one of which ends soon after the history begins.
func (g *generator) clocks() {
	o := g.timing
	if o.IntN(100) >= 15 {
		return
	}
	if o.chance(60) {
		for i := range g.h.Gateways {
			if o.chance(50) {
				g.h.Gateways[i].Ahead = one(o, -30*365*24*time.Hour, -31*24*time.Hour, -time.Hour, -time.Minute, time.Minute, time.Hour, 24*time.Hour, 31*24*time.Hour)
			}
		}
	}
	zone, quota := one(o, zones...), rules.Period("")
	for _, list := range g.h.Versions {
		for i := range list {
			for j := range list[i].Bands {
				b := &list[i].Bands[j]
				if b.Kind == rules.Quota && o.chance(70) {
					b.Period, b.Timezone = one[rules.Period](o, "day", "week", "month"), zone
					quota = b.Period
				}
			}
		}
	}
	if quota == "" || o.chance(30) {
		return
	}
	_, end := periodAt(&rules.Band{Period: quota, Timezone: zone}, begins.Add(time.Duration(o.IntN(60))*24*time.Hour).UnixMicro())
	g.h.Begins = time.UnixMicro(end).Sub(begins) - g.h.lastsUntil(o)
}

// begins is the moment at which virtual time does.
var begins = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// lastsUntil is a moment in the history.
func (h *History) lastsUntil(o *generator) time.Duration {
	return time.Duration(o.Int64N(int64(max(time.Second, h.Ends)))).Truncate(time.Millisecond)
}
