package adminapi_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// An explanation predicts the decision: 10,000 random requests to 500 random rule sets
// are explained and then decided, with buckets in Redis. Rules, buckets, outcome and
// remaining tokens are the same.
func TestExplain_RealRequest_NoRace(t *testing.T) {
	const sets, requests, parts = 500, 20, 4
	store := openRedis(t)
	r := start(t, func(s *settings) { s.store = store })
	client, err := admin.NewClient(r.URL, admin.ClientConfig{Token: admin.Secret(tokenRead)})
	do(t, err)
	defer client.Close()
	met := &tally{seen: map[string]int{}}
	t.Run("explain and decide", func(t *testing.T) {
		for part := range parts {
			t.Run(fmt.Sprint("part ", part), func(t *testing.T) {
				t.Parallel()
				for i := part; i < sets; i += parts {
					m := maker{rand.New(rand.NewPCG(uint64(i), 11))}
					set := m.set(t, fmt.Sprint("random-", i))
					_, err := r.rules.Put(t.Context(), set, rules.Change{Author: "test"})
					do(t, err)
					for j := range requests {
						one := &reality{TB: t, engine: r.engine, op: r.op, client: client, met: met, req: m.request(set.ID()), again: j%10 == i%10}
						if one.compare(); t.Failed() {
							t.Fatalf("request %+v\nrules %+v", one.req, slices.Collect(set.Rules()))
						}
					}
				}
			})
		}
	})
	met.enough(t, sets*requests, map[string]int{
		"compared": 100, "ok": 20, "limited": 5, "denied": 2, "exempt": 1, "no-rule": 2, "missing-identity": 2, "cost-too-high": 2,
		"several rules": 10, "shadow": 5, "used in part": 20, "receipt": 20, "another rule of the group": 1, "disabled": 5, "explained again": 10, "peeked": 30, "by measure": 5,
	})
}

func openRedis(t *testing.T) *redisstore.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	// Slow machines must not cause a timeout.
	store, err := redisstore.Open(ctx, testenv.StartStandalone(t, testenv.Config{}).URI(), redisstore.Config{Prefix: "adminapi", Timeout: 30 * time.Second})
	do(t, err)
	t.Cleanup(func() { do(t, store.Close()) })
	return store
}

// tally counts cases.
type tally struct {
	mu   sync.Mutex
	seen map[string]int
}

func (c *tally) add(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[what]++
}

// enough checks that each case was covered, in percent of all requests.
func (c *tally) enough(t *testing.T, all int, percent map[string]int) {
	t.Helper()
	for what, least := range percent {
		if got := c.seen[what]; got*100 < least*all {
			t.Errorf("the case %q was covered %d times in %d", what, got, all)
		}
	}
	t.Log(c.seen)
}

// reality compares the explanation of one request with its decision.
type reality struct {
	testing.TB
	op     *admin.Direct
	engine *fluxgate.Engine
	client *admin.Client
	met    *tally
	req    *fluxgate.Request
	again  bool // explain it again afterwards
}

func (r *reality) compare() {
	before := r.explain()
	d, err := r.engine.Check(r.Context(), r.req)
	do(r, err)
	r.met.add("compared")
	r.met.add(string(d.Reason))

	type said struct {
		allowed            bool
		reason             fluxgate.Reason
		rule, band, source string
		limit              int64
		degraded           bool
	}
	b := before.Decision
	decided := said{d.Allowed, d.Reason, d.RuleID, d.Band, wire.From(&d).Source, d.Limit, d.Degraded}
	if explained := (said{b.Allowed, b.Reason, b.Rule, b.Band, b.Source, b.Limit, b.Degraded}); explained != decided || d.Degraded {
		r.Errorf("the explanation is %+v, the decision %+v", explained, decided)
	}
	asked := r.sameRules(before, &d)
	r.sameTokens(before, &d)
	r.sameKeys(before, &d)
	if asked {
		r.sameBuckets(before, &d)
	}
	if !r.again {
		return
	}
	r.met.add("explained again")
	var left []string
	for _, b := range r.explain().Decision.Bands {
		left = append(left, fmt.Sprint(b.Rule, b.Label, b.Remaining))
	}
	if want := leftBy(&d); !slices.Equal(left, want) {
		r.Errorf("the second explanation has %v left, the decision %v", left, want)
	}
}

// leftBy returns what a decision leaves.
func leftBy(d *fluxgate.Decision) (all []string) {
	for b := range d.Bands() {
		all = append(all, fmt.Sprint(b.Rule.ID, b.Band.Label, b.Remaining))
	}
	return all
}

func (r *reality) explain() *admin.Explanation {
	e, err := r.client.Explain(r.Context(), r.req)
	do(r, err)
	return e
}

// sameRules checks that the decision has the bands of the rules that apply, and reports
// whether the store was used.
func (r *reality) sameRules(explained *admin.Explanation, d *fluxgate.Decision) bool {
	var applying, decided []string
	last := ""
	for _, v := range explained.Rules {
		if v.Why == "group" {
			r.met.add("another rule of the group")
		}
		if v.Why == "disabled" {
			r.met.add("disabled")
		}
		switch {
		case !v.Applies:
		case v.Action != "":
			last = v.Rule // later rules do not apply
		case v.Key != "":
			applying = append(applying, v.Rule)
		}
	}
	for b := range d.Bands() {
		if !slices.Contains(decided, b.Rule.ID) {
			decided = append(decided, b.Rule.ID)
		}
		if b.Shadow() {
			r.met.add("shadow")
		}
	}
	switch d.Reason {
	case fluxgate.ReasonDenied, fluxgate.ReasonMissingIdentity:
		if len(decided) > 0 || d.Reason == fluxgate.ReasonDenied && d.RuleID != last {
			r.Errorf("%s by %s with %v; the last rule that applies is %s", d.Reason, d.RuleID, decided, last)
		}
		return false
	case fluxgate.ReasonExempt:
		if d.RuleID != last {
			r.Errorf("exempt by %s; the last rule that applies is %s", d.RuleID, last)
		}
	}
	if !slices.Equal(applying, decided) {
		r.Errorf("the decision has rules %v, the explanation %v", decided, applying)
	}
	if len(decided) > 1 {
		r.met.add("several rules")
	}
	return true
}

// sameTokens compares the tokens in the explanation with those the decision left.
func (r *reality) sameTokens(explained *admin.Explanation, d *fluxgate.Decision) {
	takes := map[string]int64{}
	for _, v := range explained.Rules {
		if takes[v.Rule] = max(1, v.Cost); v.Key != "" && v.Measure == "" && takes[v.Rule] != max(1, r.req.Cost) {
			r.Errorf("the request costs %d, and %d for %s", r.req.Cost, v.Cost, v.Rule)
		}
	}
	i, before := 0, explained.Decision.Bands
	for b := range d.Bands() {
		if i >= len(before) {
			r.Errorf("the explanation has only %d bands", len(before))
			return
		}
		was := &before[i]
		i++
		if was.Rule != b.Rule.ID || was.Label != b.Band.Label || was.Limit != b.Limit || was.Shadow != b.Shadow() || was.Status != b.Status.String() {
			r.Errorf("band %s.%s of %d, %s, is %+v in the explanation", b.Rule.ID, b.Band.Label, b.Limit, b.Status, was)
		}
		taken := int64(0)
		if d.Allowed && b.Status == store.OK {
			taken = takes[b.Rule.ID]
			if b.Rule.Cost != "" && taken > 1 {
				r.met.add("by measure")
			}
		}
		if was.Remaining-taken != b.Remaining {
			r.Errorf("%s.%s had %d and %d were taken: %d are left", b.Rule.ID, b.Band.Label, was.Remaining, taken, b.Remaining)
		}
		if b.Remaining > 0 && b.Remaining < b.Limit {
			r.met.add("used in part")
		}
	}
}

// sameKeys compares the buckets of the receipt with those in the explanation.
func (r *reality) sameKeys(explained *admin.Explanation, d *fluxgate.Decision) {
	took := map[string]bool{}
	for b := range d.Bands() {
		if d.Allowed && b.Status == store.OK {
			took[b.Rule.ID] = true
		}
	}
	receipt := d.Receipt()
	if receipt == nil {
		if len(took) > 0 {
			r.Errorf("no receipt of %v", took)
		}
		return
	}
	r.met.add("receipt")
	for i := range receipt.Takes {
		key, measure := receipt.Takes[i].Key, rules.MeasureRequests
		if price := receipt.Price(i); price != nil {
			measure = price.Measure
		}
		named := slices.ContainsFunc(explained.Rules, func(v admin.Verdict) bool {
			return v.Applies && v.Rule == key.Rule && v.Key == r.engine.ShowKey(key) && explained.RuleSet == key.RuleSet &&
				cmp.Or(v.Measure, rules.MeasureRequests) == measure
		})
		if !named || !took[key.Rule] {
			r.Errorf("taken from %v, which is not in the explanation", key)
		}
		delete(took, key.Rule)
	}
	if len(took) > 0 {
		r.Errorf("the receipt does not have %v", took)
	}
}

// sameBuckets reads the buckets: over the API if the request is explained again,
// otherwise from the store.
func (r *reality) sameBuckets(explained *admin.Explanation, d *fluxgate.Decision) {
	var left []string
	see := func(rule, key, label string, remaining int64) {
		i := slices.IndexFunc(explained.Rules, func(v admin.Verdict) bool { return v.Rule == rule })
		if i < 0 || explained.Rules[i].Key != key {
			r.Errorf("the bucket of rule %s is %s", rule, key)
		}
		left = append(left, fmt.Sprint(rule, label, remaining))
	}
	if r.again {
		found, err := r.op.Buckets(r.Context(), r.req)
		do(r, err)
		for _, b := range found {
			for _, band := range b.Bands {
				see(b.Rule, b.Key, band.Label, band.Remaining)
			}
		}
	} else {
		found, err := r.engine.Buckets(r.Context(), r.req)
		do(r, err)
		for _, b := range found {
			for _, band := range b.Bands {
				see(b.Rule.ID, r.engine.ShowKey(b.Key), band.Band.Label, band.Remaining)
			}
		}
	}
	if want := leftBy(d); !slices.Equal(left, want) {
		r.Errorf("the buckets have %v left, the decision %v", left, want)
	}
	r.met.add("peeked")
}
