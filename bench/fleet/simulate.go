package fleet

import (
	"cmp"
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/lease"
)

const (
	// tick is how often requests arrive: those of a tick at the same moment.
	tick = 100 * time.Microsecond
	// rampUp is the time in which the gateways start, one after the other.
	rampUp = 400 * time.Millisecond
	// warmUp is not measured.
	warmUp = 750 * time.Millisecond
	// span is the time in which the least utilisation is looked for.
	span = 250 * time.Millisecond
	// callers have a limit of callerLimit requests a second each.
	callers     = 1_000_000
	callerLimit = 1_000
	// mastersPer is for how many requests a second there is a master.
	mastersPer = 50_000
)

// Scenario is what is simulated.
type Scenario struct {
	Mode     rules.Consistency
	Gateways int
	Rate     int     // requests a second, of all gateways
	Load     float64 // demand for the shared limit, as a part of it
	Replaced int     // gateways a second that leave or die, each replaced by a new one
	Measured time.Duration
	Capacity int // decisions of a master a second, 0 for the usual
}

// simulation is one that runs.
type simulation struct {
	Scenario
	store    *buckets
	rules    *rules.Set
	gateways []gateway
	random   *rand.Rand
	zipf     *rand.Zipf
	start    time.Time
	tick     int
	due      float64       // requests that are not sent yet
	next     chan struct{} // to the goroutine that sends the next requests
	done     chan struct{}
	underWay sync.WaitGroup

	mu     sync.Mutex
	ideal  account
	actual account
	times  [deadline/tick + 2]int // of decisions, in ticks
	failed int
	memory int
}

// gateway is an engine with leases.
type gateway struct {
	*fluxgate.Engine
	leases *lease.Store
}

// request is one that is decided, and its context.
type request struct {
	context.Context
	*simulation
	caller     int
	at         time.Time
	handedOver bool
}

// simulate runs a scenario in a bubble of [testing/synctest].
func simulate(scenario Scenario) Result {
	s := &simulation{Scenario: scenario, random: rand.New(rand.NewPCG(1, 2)), start: time.Now(), next: make(chan struct{}), done: make(chan struct{})} //nolint:gosec // a simulation
	s.zipf = rand.NewZipf(s.random, exponent, 1, callers-1)
	s.store = newStore(scenario.Gateways, (scenario.Rate+mastersPer-1)/mastersPer, cmp.Or(scenario.Capacity, capacity))
	limit := round(demand(scenario.Rate) / scenario.Load)
	all := rules.Rule{ID: "all", Scope: rules.ScopeGlobal, Consistency: scenario.Mode, Bands: []rules.Band{rules.PerSecond(limit)}}
	each := rules.Rule{ID: "each", Scope: rules.ScopeUser, Consistency: scenario.Mode, Bands: []rules.Band{rules.PerSecond(callerLimit)}}
	if each.Consistency == rules.ConsistencyLeased {
		each.Consistency = rules.ConsistencyAuto // most callers are not busy
	}
	s.rules = fluxgate.Must(rules.NewSet("fleet", all, each))
	s.ideal, s.actual = newAccount(limit), newAccount(limit)
	if scenario.Load > 1 {
		s.drain(all, limit)
	}
	for range scenario.Gateways {
		s.gateways = append(s.gateways, s.join())
	}
	go s.drive()
	<-s.done
	s.underWay.Wait()
	close(s.next)
	result := s.result()
	for _, g := range s.gateways {
		fluxgate.Must(0, g.leases.Close())
	}
	return result
}

// drain empties the shared bucket, so that no burst is measured.
func (s *simulation) drain(all rules.Rule, limit int64) {
	set := fluxgate.Must(rules.NewSet("fleet", all))
	engine := fluxgate.Must(fluxgate.New(s.store.Store, fluxgate.Static(set), fluxgate.WithOnFailure(rules.FailClosed)))
	fluxgate.Must(engine.Check(context.Background(), &fluxgate.Request{Cost: limit}))
	s.ideal.all.used, s.actual.all.used = float64(limit), float64(limit)
}

func (s *simulation) join() gateway {
	leases := lease.New(s.store, lease.Config{})
	return gateway{fluxgate.Must(fluxgate.New(leases, fluxgate.Static(s.rules), fluxgate.WithOnFailure(rules.FailClosed))), leases}
}

// drive sends requests. While one waits, another goroutine sends the next ones: a new
// one, or one whose request is decided.
func (s *simulation) drive() {
	for more := true; more; _, more = <-s.next {
		s.sendAll()
	}
}

// sendAll sends requests until one had to wait, or until there are no more.
func (s *simulation) sendAll() {
	for s.tick < int((warmUp+s.Measured)/tick) {
		for s.due >= 1 {
			s.due--
			if s.send() {
				return
			}
		}
		s.tick++
		s.due += float64(s.Rate) * s.ramp() * tick.Seconds()
		time.Sleep(tick)
		if s.tick == int(warmUp/tick) {
			s.store.count()
		}
		if s.Replaced > 0 && s.tick%(int(time.Second/tick)/s.Replaced) == 0 {
			s.replace()
		}
	}
	close(s.done)
}

// ramp is the part of the gateways that have started.
func (s *simulation) ramp() float64 { return min(1, float64(s.tick)/float64(rampUp/tick)) }

// replace replaces a gateway. Every other one dies, and what it holds is lost.
func (s *simulation) replace() {
	place := &s.gateways[s.random.IntN(len(s.gateways))]
	if s.tick/(int(time.Second/tick)/s.Replaced)%2 == 0 {
		leaving := place.leases
		s.underWay.Go(func() { _ = leaving.Close() })
	}
	*place = s.join()
}

// send sends a request, and reports whether another goroutine sends the next one.
func (s *simulation) send() bool {
	r := &request{Context: context.Background(), simulation: s, caller: int(s.zipf.Uint64()), at: time.Now()}
	g := s.gateways[s.random.IntN(max(1, int(float64(len(s.gateways))*s.ramp())))]
	s.mu.Lock()
	if s.ideal.fits(r.caller, r.at.Sub(s.start)) {
		s.ideal.admit(r.caller, r.at.Sub(s.start), r.at.Sub(s.start))
	}
	s.mu.Unlock()
	d := fluxgate.Must(g.Check(r, &fluxgate.Request{UserID: strconv.Itoa(r.caller), Path: "/"}))
	r.decided(&d)
	if r.handedOver {
		s.underWay.Done()
	}
	return r.handedOver
}

// Done implements [context.Context]. Who calls it is about to wait for another request.
func (r *request) Done() <-chan struct{} {
	r.handOver()
	return r.Context.Done()
}

// handOver lets another goroutine send the next requests, because this one has to wait.
func (r *request) handOver() {
	if !r.handedOver {
		r.handedOver = true
		r.underWay.Add(1)
		select {
		case r.next <- struct{}{}:
		default:
			go r.drive()
		}
	}
}

// decided counts a decision.
func (r *request) decided(d *fluxgate.Decision) {
	s, now := r.simulation, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Allowed {
		s.actual.admit(r.caller, r.at.Sub(s.start), now.Sub(s.start))
	}
	if r.at.Sub(s.start) < warmUp {
		return
	}
	s.times[min(int(now.Sub(r.at)/tick), len(s.times)-1)]++
	if d.Degraded {
		s.failed++
	}
	if !d.Degraded && !r.handedOver {
		s.memory++
	}
}
