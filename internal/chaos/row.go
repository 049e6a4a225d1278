package chaos

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Fault is something that goes wrong and ends.
type Fault struct {
	Name string
	// Under is what callers use; empty means the middleware.
	Under string
	// Setup starts the servers of the fault and the path to them. They end with the
	// test.
	Setup func(testing.TB) *Scene
	// Losses is how often a bucket can lose its state in one such fault, at most:
	// each loss allows [Capacity] more tokens. The reason is where it is set.
	Losses int
	Expect Expect
	// Short is set for faults that the short form runs.
	Short bool
}

// String returns the name and the path.
func (f Fault) String() string { return f.Name + " under " + f.under() }

func (f Fault) under() string { return cmp.Or(f.Under, "middleware") }

// Scene is a fault whose servers run.
type Scene struct {
	Path Path
	// Begin injects the fault, and End heals it or waits until the servers have
	// healed themselves.
	Begin, End func(context.Context) error
	// HealsItself is set if servers heal the fault themselves: End waits for that from
	// the beginning on.
	HealsItself bool
	// Verify, if not nil, is called at the end for what the ledger does not show.
	Verify func(context.Context) error
	// Lost, if not nil, returns the buckets that lost their state besides
	// [Fault.Losses], all users together.
	Lost func() int
}

// Expect is what a fault may do to callers. The zero value: answers without the
// store, health degraded within a second, no errors, recovery within 2 s.
type Expect struct {
	// Unnoticed faults cause no degraded decision.
	Unnoticed bool
	// Either allows both: too weak to be noticed every time.
	Either bool
	// Errors are allowed while the fault lasts: it takes the process that answers.
	Errors bool
	// OtherHealth faults degrade health but no decision.
	OtherHealth bool
	// LateHealth faults are of a rule source: health notices when a read of it has
	// timed out, which may take longer than the fault.
	LateHealth bool
}

// Row is what callers saw of one fault.
type Row struct {
	Fault, Path string
	// Decisions is how many answers there were from the beginning of the fault on,
	// Degraded those without the store. Errors are of the whole run.
	Decisions, Degraded, Errors int
	// PerSecond is the rate of answers while the fault lasted.
	PerSecond float64
	// Healthy is the rate before the fault, and Away that from a second after it began
	// until it ended.
	Healthy, Away float64
	// The times to an answer while the fault lasted and until recovery.
	P50, P99, P999, Max time.Duration
	// Late is the 99.9th percentile of how late the driver itself was to send a request.
	// It is not part of the other times, and shows how busy the machine was.
	Late time.Duration
	// Open is the 99th percentile from a second after the fault began until it
	// ended, when the node is known to be away.
	Open time.Duration
	// Admitted is the tokens that users who send more than their rate got in the whole
	// run. Due is without any loss of state, Bound with those that the fault causes
	// and the calls in flight.
	Admitted, Due, Bound int
	// Noticed is when health was degraded after the fault began, Recovered when
	// decisions were normal after it ended, and Up when health was. Below 0 means
	// never.
	Noticed, Recovered, Up time.Duration

	// Broken are broken promises about correctness, Missed those about time.
	Broken, Missed []string
}

// never is a time that did not come.
const never = time.Duration(-1)

// The bars of make chaos.
const (
	noticeBar   = time.Second
	recoveryBar = 2 * time.Second
	slack       = 20 * time.Millisecond // above the deadline
)

func (r *recording) row(f Fault, scene *Scene, load Load) Row {
	all := r.ledger.entries()
	row := Row{Fault: f.Name, Path: f.under(), Noticed: never, Recovered: never, Up: never}
	after := between(all, r.begun, r.ledger.since())
	row.Decisions = count(after, func(e *entry) bool { return !e.failed })
	row.Degraded = count(after, func(e *entry) bool { return e.degraded })
	row.Errors = count(all, func(e *entry) bool { return e.failed })
	row.PerSecond = rate(all, r.begun, r.healed)
	row.Healthy = rate(all, r.begun/2, r.begun)
	row.Away = rate(all, r.begun+time.Second, r.healed)
	judged := between(all, r.begun, r.settled)
	q := quantiles(judged, tookOf, 0.5, 0.99, 0.999, 1)
	row.P50, row.P99, row.P999, row.Max = q[0], q[1], q[2], q[3]
	row.Late = quantiles(judged, lateOf, 0.999)[0]
	row.Open = quantiles(between(all, r.begun+time.Second, r.healed), tookOf, 0.99)[0]
	if at, ok := r.noticed(); ok {
		row.Noticed = at
	}
	if at, ok := quiet(all, r.healed, calm); ok {
		row.Recovered = at - r.healed
	}
	if at, ok := r.up(); ok {
		row.Up = at
	}
	r.admissions(&row, all, f, scene, load)
	r.judge(&row, all, f, scene)
	return row
}

// admissions fills in what was admitted and compares it with the bound of each user.
func (r *recording) admissions(row *Row, all []entry, f Fault, scene *Scene, load Load) {
	users := load.users()
	admitted := make([]int, users)
	var first, last time.Duration
	for i := range all {
		e := &all[i]
		if i == 0 || e.sent < first {
			first = e.sent
		}
		last = max(last, e.answered())
		if e.allowed {
			admitted[e.user]++
		}
		if e.user < steadyCallers && !e.allowed && !e.failed {
			row.Broken = append(row.Broken, fmt.Sprintf("%s was refused within its limit at %v", userName(e.user), e.sent))
		}
	}
	lost := 0
	if scene.Lost != nil {
		lost = scene.Lost()
	}
	// The calls in flight when Redis stops may count once in Redis and once locally, and
	// so may slots.
	inFlight, local := 0, 0
	if !f.Expect.Unnoticed || row.Degraded > 0 {
		inFlight, local = callersPerUser, 1
	}
	var over []string
	excess, greedy := 0, 0
	for user, n := range admitted {
		of := limitsOf(user)
		if held, most := atOnce(all, user), int(slots.Capacity)*(1+f.Losses+local)+lost; held > most {
			row.Broken = append(row.Broken, fmt.Sprintf("%d requests of %s at the same time, at most %d are possible", held, userName(user), most))
		}
		if of.onlySlots() {
			continue
		}
		due := of.bound(r.ledger.start.Add(first), r.ledger.start.Add(last), 0)
		bound := of.bound(r.ledger.start.Add(first), r.ledger.start.Add(last), f.Losses) + inFlight
		if n > bound {
			excess += n - bound
			over = append(over, fmt.Sprintf("%s got %d tokens above the bound of %d", userName(user), n-bound, bound))
		}
		if user >= steadyCallers {
			row.Admitted, row.Due, row.Bound = row.Admitted+n, row.Due+due, row.Bound+bound
			greedy += of.refills()
		}
	}
	row.Bound += lost * maxCapacity
	if excess > lost*maxCapacity {
		row.Broken = append(row.Broken, over...)
	}
	// After recovery a user who sends more than the rate gets what is due.
	lastSecond := between(all, r.settled, r.settled+tail)
	got := count(lastSecond, func(e *entry) bool { return e.allowed && e.user >= steadyCallers && limitsOf(e.user).refills() > 0 })
	if got < greedy*Rate*3/4 {
		row.Broken = append(row.Broken, fmt.Sprintf("%d tokens in the second after recovery, %d are due", got, greedy*Rate))
	}
}

// judge compares a row with what is promised.
func (r *recording) judge(row *Row, all []entry, f Fault, scene *Scene) {
	broken := func(format string, args ...any) { row.Broken = append(row.Broken, fmt.Sprintf(format, args...)) }
	missed := func(format string, args ...any) { row.Missed = append(row.Missed, fmt.Sprintf(format, args...)) }
	if len(row.Broken) > 3 {
		row.Broken = append(row.Broken[:3], fmt.Sprintf("and %d more", len(row.Broken)-3))
	}
	outside := count(all, func(e *entry) bool {
		return e.failed && (e.answered() < r.begun || e.sent > r.healed && e.sent > r.healed+max(0, row.Recovered))
	})
	switch first := r.ledger.firstError.Load(); {
	case row.Errors > 0 && !f.Expect.Errors:
		broken("%d errors, the first: %v", row.Errors, *first)
	case outside > 0:
		broken("%d errors before the fault or after recovery, the first: %v", outside, *first)
	}
	if row.Recovered == never || row.Up == never {
		broken("not recovered %v after the fault ended", patience)
	}
	if (f.Expect.Unnoticed || f.Expect.OtherHealth) && row.Degraded > 0 {
		missed("%d decisions are degraded", row.Degraded)
	}
	notices := !f.Expect.Unnoticed && !f.Expect.Either && !f.Expect.LateHealth
	switch {
	case notices && row.Noticed == never:
		missed("health did not notice")
	case notices && row.Noticed > noticeBar:
		missed("health noticed after %v", row.Noticed.Round(time.Millisecond))
	}
	if row.Recovered > recoveryBar {
		missed("decisions normal after %v", row.Recovered.Round(time.Millisecond))
	}
	if row.Up > recoveryBar {
		missed("health up after %v", row.Up.Round(time.Millisecond))
	}
	if bar := scene.Path.Deadline() + slack; row.P999 > bar {
		missed("p99.9 is %v, the deadline %v (p99.9 of the delay of the driver itself: %v)", row.P999.Round(time.Millisecond), scene.Path.Deadline(), row.Late.Round(time.Millisecond))
	}
}

// Table returns rows as a table in Markdown.
func Table(rows []Row) string {
	var b strings.Builder
	fmt.Fprintln(&b, "| fault | path | decisions | errors | degraded | per second | p50 | p99 | p99.9 | max | driver late | admitted | due | bound | noticed | recovered | health up |")
	fmt.Fprintln(&b, "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for i := range rows {
		r := &rows[i]
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %.0f | %s | %s | %s | %s | %s | %d | %d | %d | %s | %s | %s |\n",
			r.Fault, r.Path, r.Decisions, r.Errors, r.Degraded, r.PerSecond,
			milliseconds(r.P50), milliseconds(r.P99), milliseconds(r.P999), milliseconds(r.Max), milliseconds(r.Late),
			r.Admitted, r.Due, r.Bound, seconds(r.Noticed), seconds(r.Recovered), seconds(r.Up))
	}
	return b.String()
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1_000)
}

func seconds(d time.Duration) string {
	if d == never {
		return "–"
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
