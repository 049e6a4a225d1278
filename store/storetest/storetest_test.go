package storetest_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/fluxgate/fluxgate/store/storetest"
)

func TestRun_CorrectStore(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Backend { return openPlain("") })
}

// faults are mistakes that stores make, and the check that must notice. Many
// are noticed by others too.
var faults = map[string]string{
	"loses fractions":                           "I2 a fraction of a token is never lost",
	"hands out one too many":                    "I1 a burst is the capacity and not a token more",
	"takes on rejection":                        "I3 a rejection takes nothing and moves no time",
	"moves time on rejection":                   "I3 a rejection takes nothing and moves no time",
	"takes on a peek":                           "I3 a peek changes nothing",
	"takes from some bands only":                "I4 a request takes from every band or from none",
	"takes from some rules only":                "I4 a request takes from every rule or from none",
	"lets shadow rules veto":                    "I4 a shadow rule takes where it fits and never vetoes",
	"takes nothing for shadow rules":            "I4 a shadow rule takes where it fits and never vetoes",
	"lets shadow rules take when vetoed":        "I4 a shadow rule takes nothing when an enforced one vetoes",
	"takes half of a shadow demand":             "I4 a shadow rule takes its tokens and its slot, or neither",
	"forgets after a day":                       "I5 a bucket is remembered until it is full",
	"forgets after a period":                    "I5 a bucket is remembered until it is full",
	"tells the time until full in seconds":      "I5 the time until full is exact",
	"does not tell when more is left":           "I1 I2 every decision equals the ideal bucket",
	"waits as before an overdraft":              "I1 I2 every decision equals the ideal bucket",
	"refills on rule change":                    "I6 a rule change is not a refill",
	"rounds a rule change for the caller":       "I6 a rule change is not a refill",
	"keeps the debt of another rate":            "I6 debt is cut to the largest of the new rate",
	"drifts when versions alternate":            "I6 two versions of a rule may alternate",
	"forgets bands that are not asked for":      "I6 a band that is not asked for keeps its state",
	"forgets other versions of a band":          "I6 versions that alternate hand out a capacity each at most",
	"gives nothing back after a change":         "I6 what is given back follows a change",
	"waits for the former numbers":              "I6 a caller does not wait for the former numbers",
	"carries counts in proportion":              "I6 quotas and windows carry the number that is used",
	"makes debt of a lowered quota":             "I6 what exceeds a lowered quota is no debt",
	"drops holders when the hold changes":       "I6 a slot ends when it was given to, whatever the hold is now",
	"binds charges to slots":                    "concurrency does not bind a demand without a holder",
	"matches bands by position alone":           "I6 consumption follows a band that moves within its rule",
	"lets spellings collide":                    "I7 keys that differ anywhere are different buckets",
	"begins with the machine's clock":           "I8 the clock is known before the first decision",
	"makes tokens when the clock steps back":    "I8 a clock that steps back makes no token",
	"stops when the clock steps back":           "I8 a clock that stepped back runs on from there",
	"waits for what can never come":             "cost above the capacity is refused at once and takes nothing",
	"takes one for nothing":                     "cost of zero takes nothing",
	"takes broken demands":                      "demands that break the contract are refused",
	"books no waits":                            "wait books tokens ahead, first come first served",
	"forgives debt":                             "wait books tokens ahead, first come first served",
	"accepts any wait":                          "wait longer than asked for is refused at once and books nothing",
	"wakes waiters early":                       "wait ends where an ideal bucket would have the tokens",
	"gives everything back":                     "I1 settle never lets tokens be handed out twice",
	"gives nothing back":                        "settle gives back at once what was not used",
	"gives back past the queue":                 "settle of a withdrawn wait gives back the last in the queue",
	"gives back under changed numbers":          "settle gives nothing back where the rule has changed, and charges",
	"settles anything":                          "settle of a receipt of nothing is refused",
	"charges nothing":                           "settle charges what was used beyond",
	"settles all takes at the first cost":       "settle takes one actual cost for each take",
	"grants nothing in part":                    "min grants what all bands have now",
	"grants what one band has":                  "min grants what all bands have now",
	"grants the least only":                     "min grants what all bands have now",
	"grants what is there, however little":      "min is refused where less is there, and takes nothing",
	"takes overdrafts for takes":                "overdraft is debited from an empty bucket",
	"admits overdrafts of empty buckets":        "overdraft fits while the balance is positive",
	"debits no overdraft of a rejected request": "overdraft is debited though the request is rejected",
	"charges overdrafts twice":                  "overdraft cut by the largest debt is settled at its cost",
	"overdraws without bound":                   "overdraft is bounded by the largest debt",
	"counts no refused hits":                    "counting refused hits: over is what passes the capacity",
	"keeps hits beyond a period":                "counting refused hits: each period begins at 0",
	"counts refused requests everywhere":        "counting refused hits: a refused request counts where it is over",
	"rejects if one alternative is over":        "counting refused hits: alternatives reject if all are over",
	"does not tell of debt":                     "settle charges what was used beyond",
	"charges without bound":                     "settle charges into bounded debt",
	"resets nothing":                            "reset makes the buckets of a rule full and no others",
	"resets everything":                         "reset makes one caller's bucket full and no other",
	"ends quotas a second early":                "quota comes back when its period ends and not before",
	"has months of 30 days":                     "quota ends where the calendar says",
	"ends quotas by the gateway's calendar":     "quota ends by the store's clock, whatever calendar a gateway has",
	"forgives the debt of a quota":              "quota carries consumption and debt over",
	"gives quotas back across an edge":          "quota gives nothing back across an edge",
	"forgets half of a window":                  "window never hands out more than its capacity in any period",
	"keeps a window for too long":               "window never hands out more than its capacity in any period",
	"gives back to the newest slot":             "window gives back where it was taken",
	"moves a window with the clock":             "window counts on when the clock steps back",
	"takes from other kinds in any case":        "kinds in one rule are taken from together or not at all",
	"waits for any kind":                        "kinds other than token buckets cannot be waited for",
	"takes a slot for each token":               "concurrency admits its capacity at the same time and not one more",
	"releases the slots of others":              "concurrency releases a slot once",
	"never takes slots back":                    "concurrency takes the slot of a lost holder back after its hold",
	"renews lost slots":                         "concurrency keeps a slot that is renewed, and renews no lost one",
	"stops at a lost slot":                      "concurrency renews the other slots of a request that has lost one",
	"writes all bands to renew slots":           "concurrency is renewed and other bands stay as they are",
	"counts slots of refused requests":          "concurrency of a request that is refused is not held",
	"waits for a clock that stepped back":       "concurrency takes slots back when the clock has stepped back",
	"warns once for all capacities":             "warnings are one for each bucket, band, percent and capacity",
	"keeps marks beyond the period":             "warnings of a quota return in the next period, and late ones are kept",
	"keeps marks when the clock steps back":     "warnings of a window return after a period, also if the clock steps back",
	"warns by the time of a report":             "warnings of a window return after a period, also if the clock steps back",
	"does not tell when a warning ends":         "warnings of a window return after a period, also if the clock steps back",
	"does not warn again after a reset":         "warnings return after a reset of the rule",
	"delivers warnings again":                   "warnings are pending until they are delivered, in their order",
	"reports no levels of settlements":          "settle reports the levels of quotas and windows",
	"reads and writes apart":                    "concurrent callers get the capacity and not a token more",
}

// Every fault is found by the check named for it.
func TestChecks_FindFaults(t *testing.T) {
	checks := map[string]storetest.Check{}
	for _, c := range storetest.Checks() {
		checks[c.Name] = c
	}
	for fault, name := range faults {
		t.Run("a store that "+fault, func(t *testing.T) {
			c, ok := checks[name]
			if !ok {
				t.Fatalf("no check is called %q", name)
			}
			r := record(t, func(t testing.TB) { c.Run(t, openPlain(fault)) })
			if !r.failed {
				t.Fatalf("passes the check %q", name)
			}
			t.Logf("%s: %s", name, r.said)
		})
	}
}

// Every check finds at least one fault.
func TestChecks_AreNeeded(t *testing.T) {
	for _, c := range storetest.Checks() {
		if !isNeeded(t, c) {
			t.Errorf("no faulty store fails the check %q", c.Name)
		}
	}
}

// isNeeded tries the faults first that are the check's own: others may take long.
func isNeeded(t *testing.T, c storetest.Check) bool {
	for _, own := range []bool{true, false} {
		for fault, name := range faults {
			if (name == c.Name) == own && record(t, func(t testing.TB) { c.Run(t, openPlain(fault)) }).failed {
				return true
			}
		}
	}
	return false
}

// recorder is a testing.TB whose failures do not fail the outer test.
type recorder struct {
	testing.TB
	mu     sync.Mutex
	failed bool
	said   string
}

func record(t *testing.T, run func(testing.TB)) *recorder {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(r)
	}()
	<-done
	return r
}

func (r *recorder) fail(said string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failed {
		r.failed, r.said = true, strings.TrimSpace(said)
	}
}

func (r *recorder) Errorf(format string, args ...any) { r.fail(fmt.Sprintf(format, args...)) }
func (r *recorder) Error(args ...any)                 { r.fail(fmt.Sprintln(args...)) }
func (r *recorder) Failed() bool                      { r.mu.Lock(); defer r.mu.Unlock(); return r.failed }
func (r *recorder) FailNow()                          { r.fail("failed"); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
func (r *recorder) Helper()                           {}
