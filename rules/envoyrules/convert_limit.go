package envoyrules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
)

// limit adds the rule of a descriptor with a limit.
func (c *converter) limit(d *Descriptor, path []entry, place string) {
	r := rules.Rule{Scope: rules.ScopeComposite, KeyFields: []string{"descriptor"}}
	elements := make([]string, len(path))
	for i, e := range path {
		elements[i] = e.joined
		r.When.Descriptor = append(r.When.Descriptor, e.match)
		c.excepted += len(e.match.Except)
	}
	if c.excepted > maxExcept {
		c.refuse(place, tooManyExcept, maxExcept)
		return
	}
	r.ID = ruleID(elements)
	c.shareThreshold(&r, path, place)
	c.amount(&r, d, place)
	r.Attributes = attributes(d)
	c.rules, c.limits, c.places = append(c.rules, r), append(c.limits, d.RateLimit), append(c.places, place)
}

// shareThreshold makes a rule count by the entries whose values are not shared.
func (c *converter) shareThreshold(r *rules.Rule, path []entry, place string) {
	if !slices.ContainsFunc(path, func(e entry) bool { return e.shared }) {
		return
	}
	r.Scope, r.KeyFields = rules.ScopeGlobal, nil
	for i, e := range path {
		if e.shared || e.match.Value != "" && !strings.HasSuffix(e.match.Value, "*") {
			continue // the same for all requests of the rule
		}
		if slices.ContainsFunc(path[:i], func(other entry) bool { return other.match.Key == e.match.Key }) {
			c.refuse(place, "share_threshold is not possible on a path that has the key %s twice", printable.Quote(e.match.Key))
		}
		r.Scope, r.KeyFields = rules.ScopeComposite, append(r.KeyFields, "descriptor:"+e.match.Key)
	}
}

// amount sets what the rule does: its bands, action and mode.
func (c *converter) amount(r *rules.Rule, d *Descriptor, place string) {
	limit := d.RateLimit
	switch {
	case d.ShadowMode:
		r.Mode = rules.ModeShadow
	case d.QuotaMode:
		r.Mode = rules.ModeAlternative
	}
	unit := strings.ToLower(limit.Unit)
	switch difference, known := units[unit]; {
	case limit.Unlimited:
		r.Action, r.Mode, r.Scope, r.KeyFields = rules.ActionAllow, "", "", nil
	case limit.RequestsPerUnit == 0:
		r.Action, r.Scope, r.KeyFields = rules.ActionDeny, "", nil
	case known: // or it is refused already
		if difference != "" {
			c.note(place+".rate_limit.unit", "%s", difference)
		}
		r.Bands = []rules.Band{{Kind: rules.Quota, Capacity: int64(limit.RequestsPerUnit), Period: rules.Period(unit)}}
		r.CountRefused = true
	}
	if d.QuotaMode && r.Mode == rules.ModeShadow {
		c.note(place+".quota_mode", "becomes mode shadow: requests above the limit are counted and allowed")
	}
}

// units are the periods of limits, with what differs from envoyproxy/ratelimit.
var units = map[string]string{
	"second": "", "minute": "", "hour": "", "day": "",
	"week":  "begins on Monday in UTC, not on Thursday as in envoyproxy/ratelimit",
	"month": "is the month of the calendar in UTC, not 30 days as in envoyproxy/ratelimit",
	"year":  "is the year of the calendar in UTC, not 365 days as in envoyproxy/ratelimit",
}

// checkLimit refuses what envoyproxy/ratelimit refuses.
func (c *converter) checkLimit(limit *RateLimit, place string) {
	_, known := units[strings.ToLower(limit.Unit)]
	switch {
	case limit.Unlimited && known:
		c.refuse(place+".unit", "is not possible with unlimited")
	case !limit.Unlimited && !known:
		c.refuse(place+".unit", "must be second, minute, hour, day, week, month or year, not %s", printable.Quote(limit.Unit))
	}
	for i, replaced := range limit.Replaces {
		place := fmt.Sprintf("%s.replaces[%d]", place, i)
		switch replaced.Name {
		case "":
			c.refuse(place+".name", "is required")
		case limit.Name:
			c.refuse(place+".name", "must not be the name of the limit itself")
		}
	}
}

// attributes are what the rule has no fields for.
func attributes(d *Descriptor) map[string]any {
	a := map[string]any{}
	if d.RateLimit.Name != "" {
		a[AttributeName] = d.RateLimit.Name
	}
	if len(d.Metadata) > 0 {
		a[AttributeMetadata] = d.Metadata
	}
	if len(a) == 0 {
		return nil
	}
	return a
}
