package redisstore

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

var agreeSteps = flag.Int("redisstore.steps", 200_000, "random steps on which Lua and Go are compared")

// scriptClient runs the script without a store.
type scriptClient struct {
	t testing.TB
	*redis.Client
}

func newScriptClient(t testing.TB, s *testenv.Server) scriptClient {
	t.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: s.Addr(), Username: s.Username(), Password: s.Password(), TLSConfig: s.TLSConfig(), MaxRetries: -1,
	})
	t.Cleanup(func() { c.Close() })
	return scriptClient{t, c}
}

// decide runs the script, and returns the expiry that it computed for each key,
// in milliseconds, if now is passed in: 0 is a key that was deleted, -1 one
// that was not written.
func (c scriptClient) decide(now int64, requests ...*shardRequest) (map[string]int64, error) {
	call := scriptCall{batch: requests}
	call.build(now)
	reply, err := c.Do(context.Background(), call.by("EVAL", &decideScript)...).Text()
	if err != nil {
		return nil, err
	}
	rest, err := call.read(reply)
	if err != nil {
		return nil, err
	}
	expiries := make(map[string]int64, len(call.names))
	if now == 0 {
		if rest != "" {
			return nil, fmt.Errorf("%d bytes behind the answer", len(rest))
		}
		return expiries, nil
	}
	if len(rest) != 8*len(call.names) {
		return nil, fmt.Errorf("%d bytes of expiries for %d keys", len(rest), len(call.names))
	}
	for i, key := range call.names {
		expiries[key] = int64(math.Float64frombits(binary.LittleEndian.Uint64([]byte(rest[8*i:]))))
	}
	return expiries, nil
}

// encodeValue writes a bucket set as docs/redis.md says it is stored.
func encodeValue(s *bucket.State) []byte {
	b := appendInteger([]byte{version}, s.At, 7)
	for _, slot := range s.Slots {
		tag := recordTag(&store.ExactBand{ID: slot.ID, Kind: slot.Kind, Tick: bucket.Ticks[slot.Tick]})
		if slot.Since > 0 {
			tag |= keptTag
		}
		b = appendInteger(b, int64(tag), 4)
		for _, field := range fieldsOf(&slot, nil) {
			b = appendInteger(b, *field, 7)
		}
		if slot.Since > 0 {
			b = appendInteger(b, slot.Since, 7)
		}
	}
	if s.Hold > 0 {
		b = appendInteger(appendInteger(b, holdTag, 4), s.Hold, 7)
	}
	return b
}

func appendInteger(b []byte, n int64, size int) []byte {
	return append(b, binary.LittleEndian.AppendUint64(nil, uint64(n))[:size]...)
}

// randomBand draws a band as internal/bucket's own test does: from one per
// millisecond to 10^9 per 366 days, as people write them and as they do not.
func randomBand(r *rand.Rand, id uint32) store.ExactBand {
	periods := []time.Duration{
		time.Millisecond, 100 * time.Millisecond, time.Second, 7 * time.Second, time.Minute,
		time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 366 * 24 * time.Hour,
	}
	number := func() int64 {
		ceilings := []int64{3, 20, 1_000, 100_000, 1_000_000_000}
		return 1 + r.Int64N(ceilings[r.IntN(len(ceilings))])
	}
	for {
		period := periods[r.IntN(len(periods))]
		if r.IntN(3) == 0 {
			period = time.Millisecond + time.Duration(r.Int64N(int64(period)))
			period = period.Truncate([]time.Duration{time.Microsecond, time.Millisecond, time.Second}[r.IntN(3)])
		}
		capacity := number()
		tokens := capacity
		if r.IntN(3) == 0 {
			tokens = number()
		}
		if b, err := bucket.NewBand(id, capacity, tokens, period); err == nil {
			return b
		}
	}
}

// randomKind draws a band of any kind. The gateway's clock is right, or wrong.
func (a *agreement) randomKind(id uint32) store.ExactBand {
	capacity := 1 + a.r.Int64N([]int64{3, 20, 1_000, 1_000_000_000, 1_000_000_000_000_000}[a.r.IntN(5)])
	length := []time.Duration{time.Second, time.Minute, time.Hour, 31 * 24 * time.Hour}[a.r.IntN(4)]
	switch a.r.IntN(3) {
	case 0:
		b := fluxgate.Must(bucket.NewQuota(id, capacity, 2*length))
		b.Edges[0] = a.now - a.r.Int64N(length.Microseconds())
		if a.r.IntN(4) == 0 {
			b.Edges[0] += (a.r.Int64N(7) - 3) * length.Microseconds()
		}
		b.Edges[1] = b.Edges[0] + 1 + a.r.Int64N(length.Microseconds())
		b.Edges[2] = b.Edges[1] + 1 + a.r.Int64N(length.Microseconds())
		return b
	case 1:
		return fluxgate.Must(bucket.NewWindow(id, capacity, length))
	}
	return randomBand(a.r, id)
}

// agreement is the same history in Lua and in Go.
type agreement struct {
	mixed  bool // bands of all kinds
	single bool // one band for each key: the script has code paths of their own for these
	t      *testing.T
	r      *rand.Rand
	client scriptClient
	now    int64
	keys   []string
	rules  [][]store.ExactBand // of each key, at present
	former [][]store.ExactBand // what a gateway with older rules would send
	states map[string]*bucket.State
	deck   []int // keys without a request in this call, or nil
	// written is when a key that the call at hand has written is full.
	written  map[string]int64
	receipts []*shardRequest // settles to come
	steps    int
	done     map[string]int
}

func (a *agreement) bands() []store.ExactBand {
	if a.mixed && a.r.IntN(5) == 0 { // a quota that counts refused hits, from any other
		for {
			if b := a.randomKind(uint32(a.r.IntN(6))); b.Kind == bucket.Quota {
				return []store.ExactBand{b.CountRefused()}
			}
		}
	}
	if a.single {
		return []store.ExactBand{a.band(1)}
	}
	if a.r.IntN(8) == 0 {
		return a.manyBands()
	}
	bands := make([]store.ExactBand, 1+a.r.IntN(4))
	for i, id := range a.r.Perm(6)[:len(bands)] {
		bands[i] = a.band(uint32(id))
	}
	return bands
}

// manyBands are the most there can be, or one less. They are slow to compare.
func (a *agreement) manyBands() []store.ExactBand {
	bands := make([]store.ExactBand, bucket.MaxBands-a.r.IntN(2))
	for i, id := range a.r.Perm(bucket.MaxBands + 4)[:len(bands)] {
		bands[i] = a.band(uint32(id))
	}
	return bands
}

func (a *agreement) band(id uint32) store.ExactBand {
	if a.mixed {
		return a.randomKind(id)
	}
	return randomBand(a.r, id)
}

// begin drops all state and draws new keys.
func (a *agreement) begin() {
	a.now = 1_700_000_000_000_000 + a.r.Int64N(1e12)
	a.keys, a.rules, a.former, a.receipts = nil, nil, nil, nil
	a.states = map[string]*bucket.State{}
	for i := range 120 {
		a.keys = append(a.keys, fmt.Sprintf("fluxgate:{%d}:%d", a.steps, i))
		bands := a.bands()
		if i%3 == 2 {
			bands = a.rules[i-1] // another caller under the same rule
		}
		a.rules = append(a.rules, bands)
		a.former = append(a.former, a.rules[i])
	}
}

// pass lets time pass between two calls, and now and then step back.
func (a *agreement) pass() {
	spans := []int64{1, 1_000, 50_000, 1_000_000, 60_000_000, 3_600_000_000, 400 * 24 * 3_600_000_000}
	if a.single {
		spans = spans[2:6] // a few slots of windows
	}
	switch a.r.IntN(10) {
	case 0:
		a.now -= a.r.Int64N(spans[a.r.IntN(len(spans)-1)])
		a.done["clock stepped back"]++
	case 1: // another call in the same microsecond
	default:
		a.now += a.r.Int64N(spans[a.r.IntN(len(spans))])
	}
}

// change gives a key other bands: other numbers, more, fewer, elsewhere.
func (a *agreement) change() {
	k := a.r.IntN(busyKeys)
	if a.deck != nil {
		k = a.r.IntN(len(a.keys))
	}
	a.former[k] = a.rules[k]
	next := slices.Clone(a.rules[k])
	switch a.r.IntN(5) {
	case 0:
		if next = a.bands(); len(a.rules[k]) > 4 {
			next = a.manyBands()
		}
	case 4: // fewer of the same
		next = next[:1+a.r.IntN(len(next))]
	case 1:
		a.r.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
	case 2:
		i := a.r.IntN(len(next))
		next[i].ID = uint32(10 + a.r.IntN(1_000_000)) // another label
	default:
		i := a.r.IntN(len(next))
		next[i] = a.band(next[i].ID)
		if was := a.rules[k][i]; was.Kind == bucket.Window && a.r.IntN(2) == 0 { // another period alone
			next[i] = fluxgate.Must(bucket.NewWindow(was.ID, was.Capacity, []time.Duration{time.Second, time.Minute, time.Hour}[a.r.IntN(3)]))
		}
	}
	a.rules[k] = next
	a.done["band change"]++
}

// busyKeys are keys of many requests of a call.
const busyKeys = 24

// deal picks keys for a request: busy ones, or keys of no other request of the
// call, as far as there are any.
func (a *agreement) deal(count int) []int {
	if len(a.deck) < count {
		return a.r.Perm(busyKeys)[:count]
	}
	dealt := a.deck[:count]
	a.deck = a.deck[count:]
	return dealt
}

// draw makes the next request.
func (a *agreement) draw() *shardRequest {
	settles := 5
	if a.deck != nil {
		settles = 50
	}
	if len(a.receipts) > 0 && a.r.IntN(settles) == 0 {
		i := a.r.IntN(len(a.receipts))
		s := a.receipts[i]
		a.receipts = slices.Delete(a.receipts, i, i+1)
		for _, t := range s.takes {
			actual := a.r.Int64N(2*t.Cost + 2)
			if a.r.IntN(3) == 0 {
				actual = 0
			}
			s.actual = append(s.actual, actual)
		}
		return s
	}
	next := newShardRequest(opTake, 0, time.Time{})
	if a.r.IntN(6) == 0 {
		next.op = opPeek
	}
	count := 1
	if a.r.IntN(3) == 0 {
		count += a.r.IntN(4)
	}
	rejected := a.r.IntN(20) == 0
	for _, k := range a.deal(count) {
		d := store.Demand{Key: store.Key{Rule: a.keys[k]}, Bands: a.rules[k], Shadow: a.r.IntN(5) == 0, DebitOnly: rejected}
		if a.r.IntN(8) == 0 {
			d.Bands = a.former[k]
		}
		most := d.Bands[0].Capacity // perhaps above another band's
		for _, b := range d.Bands[:a.r.IntN(5)*len(d.Bands)/4] {
			most = min(most, b.Capacity)
		}
		d.Cost = a.r.Int64N(min(most, 1+a.r.Int64N(1_000_000)) + 1)
		if a.r.IntN(40) == 0 {
			d.Cost = a.r.Int64()
		}
		if a.r.IntN(4) == 0 && d.Cost > 0 {
			d.Min = 1 + a.r.Int64N(d.Cost)
		}
		switch {
		case a.r.IntN(8) == 0:
			d.Overdraft, d.Min = true, 0
		case a.r.IntN(2) == 0:
			d.MaxWait = time.Duration(a.r.Int64N(bucket.MaxWait.Microseconds()+1)) * time.Microsecond
		}
		if d.CountsRefused() {
			d.Min, d.MaxWait, d.Overdraft, d.Alternative = 0, 0, false, !d.Shadow && a.r.IntN(2) == 0
		}
		next.demands = append(next.demands, d)
		next.keys = append(next.keys, a.keys[k])
	}
	return next
}

func (a *agreement) state(key string) *bucket.State {
	if a.states[key] == nil {
		a.states[key] = new(bucket.State)
	}
	return a.states[key]
}

// carries counts the slots that change their numbers, and those whose product
// no double can hold.
func (a *agreement) carries(s *bucket.State, bands []store.ExactBand) {
	for i := range bands {
		for _, slot := range s.Slots {
			if slot.ID != bands[i].ID || slot.Limit == bands[i].Limit || slot.Used == 0 {
				continue
			}
			a.done["carried over"]++
			if hi, lo := bits.Mul64(uint64(slot.Used), uint64(bands[i].Limit)); hi > 0 || lo >= bucket.MaxUnits {
				a.done["carried over beyond 2^53"]++
			}
		}
	}
}

// replay runs the requests in Go, and compares.
func (a *agreement) replay(got *shardRequest) {
	if got.op == opSettle {
		a.replaySettle(got)
		return
	}
	admitted, alternatives, over := true, 0, 0
	levels, states := got.levels, got.states
	views := make([]bucket.View, len(got.demands))
	statuses := make([]store.Status, len(got.demands))
	for i := range got.demands {
		d, v := &got.demands[i], &views[i]
		state := a.state(got.keys[i])
		a.carries(state, d.Bands)
		state.View(d.Bands, a.now, v)
		if isMixed(d.Bands) {
			if in, want := encodeValue(&states[0]), encodeValue(state); !slices.Equal(in, want) && len(states[0].Slots)+len(state.Slots) > 0 {
				a.t.Fatalf("step %d, demand %d: value %x in Lua, %x in Go; bands %+v, state %+v, now %d", a.steps, i, in, want, d.Bands, *state, a.now)
			}
			states = states[1:]
		} else {
			if !slices.Equal(levels[:len(d.Bands)], v.Levels[:len(d.Bands)]) {
				a.t.Fatalf("step %d, demand %d: levels %v in Lua, %v in Go; bands %+v, state %+v, now %d",
					a.steps, i, levels[:len(d.Bands)], v.Levels[:len(d.Bands)], d.Bands, *state, a.now)
			}
			levels = levels[len(d.Bands):]
		}
		grant := a.grant(d, v)
		switch {
		case d.Overdraft:
			for j := range d.Bands {
				if v.Levels[j] >= d.Bands[j].Limit {
					statuses[i] = store.Rejected
				}
			}
		case !bucket.Affordable(d.Bands, grant):
			statuses[i] = store.TooCostly
		case d.CountsRefused():
			if v.Levels[0]+d.Cost > d.Bands[0].Limit {
				statuses[i] = store.Rejected
			}
		case v.Wait(d.Bands, grant) > d.MaxWait.Microseconds() || waitsForSteps(d, v, grant):
			statuses[i] = store.Rejected
		case grant < d.Cost && v.Wait(d.Bands, grant) == 0:
			a.done["granted in part"]++
		}
		a.done[statuses[i].String()]++
		if statuses[i] != store.OK && d.Shadow {
			a.done["shadow did not fit"]++
		}
		if d.Alternative {
			alternatives++
		}
		switch {
		case statuses[i] == store.OK || d.Shadow:
		case d.Alternative:
			over++
		default:
			admitted = false
		}
	}
	if alternatives > 0 && over == alternatives {
		admitted = false
		a.done["all alternatives over"]++
	}
	if got.op != opPeek && got.demands[0].DebitOnly {
		a.done["rejected before"]++
		admitted = false
	}
	if !slices.Equal(statuses, got.statuses) || admitted != got.admitted || got.now != a.now {
		a.t.Logf("%+v %+v", got.demands, views)
		a.t.Fatalf("step %d: statuses %v, admitted %t at %d in Lua; %v, %t at %d in Go",
			a.steps, got.statuses, got.admitted, got.now, statuses, admitted, a.now)
	}
	if got.op == opPeek {
		a.done["peek"]++
		return
	}
	for i := range got.demands {
		a.finish(got, i, admitted && statuses[i] == store.OK, &views[i])
	}
	var out store.Outcome
	out.Prepare(got.demands)
	got.fill(&out, nil)
	out.Decide(got.demands)
	if r := store.NewTakes(got.demands, &out); r != nil {
		s := newShardRequest(opSettle, 0, time.Time{})
		for _, t := range r {
			s.takes, s.keys = append(s.takes, t), append(s.keys, t.Key.Rule)
		}
		a.receipts = append(a.receipts, s)
	}
}

// waitsForSteps reports whether a demand would wait for a band that cannot be waited
// for.
func waitsForSteps(d *store.Demand, v *bucket.View, grant int64) bool {
	for j := range d.Bands {
		if d.Bands[j].Kind != bucket.TokenBucket && v.WaitOf(d.Bands, j, grant) > 0 {
			return true
		}
	}
	return false
}

// grant is the cost that a demand without overdraft is decided for.
func (a *agreement) grant(d *store.Demand, v *bucket.View) int64 {
	if d.Min == 0 {
		return d.Cost
	}
	return v.Grant(d.Bands, d.Min, d.Cost)
}

// finish books a demand, or follows a clock that stepped back.
func (a *agreement) finish(got *shardRequest, i int, fits bool, v *bucket.View) {
	d, key := &got.demands[i], got.keys[i]
	state := a.state(key)
	changed := fits && d.Cost > 0
	switch {
	case d.Overdraft:
		before := v.Levels[0]
		if _, changed = v.Overdraw(d.Bands, d.Cost); !changed {
			a.done["overdrawn to nothing"]++
		} else if v.Levels[0] == d.Bands[0].Max && before < v.Levels[0] {
			a.done["overdrawn to the largest debt"]++
		}
		if changed && !got.admitted {
			a.done["overdrawn though rejected"]++
		}
	case d.CountsRefused() && got.statuses[i] != store.OK:
		if _, changed = v.Overdraw(d.Bands, d.Cost); changed {
			a.done["counted though over"]++
		}
	case changed:
		grant := a.grant(d, v)
		if v.Wait(d.Bands, grant) > 0 {
			a.done["waited"]++
		}
		v.Take(d.Bands, grant)
	}
	switch {
	case changed:
		state.Store(d.Bands, v)
	case !state.Adopt(a.now):
		return
	default:
		a.done["clock adopted"]++
	}
	a.written[key] = a.now + state.FullAfter()
}

func (a *agreement) replaySettle(got *shardRequest) {
	for i := range got.takes {
		t, key := &got.takes[i], got.keys[i]
		state := a.state(key)
		tokens, changed := state.Settle(t.Bands, bucket.Booking{Cost: t.Cost, At: t.At, Due: t.Due}, got.actual[i], a.now)
		if got.tokens[i] != tokens {
			a.t.Fatalf("step %d: settled %d tokens in Lua, %d in Go; %+v to %d at %d", a.steps, got.tokens[i], tokens, *t, got.actual[i], a.now)
		}
		switch {
		case tokens > 0:
			a.done["given back"]++
		case tokens < 0:
			a.done["charged"]++
		default:
			a.done["settled to nothing"]++
		}
		if changed {
			a.written[key] = a.now + state.FullAfter()
		}
	}
}

// call puts many requests into one call and compares all of it.
func (a *agreement) call() {
	requests := make([]*shardRequest, 50+a.r.IntN(50))
	a.deck = nil
	if a.r.IntN(2) == 0 {
		a.deck = a.r.Perm(len(a.keys))
	}
	for i := range requests {
		if a.r.IntN(12) == 0 {
			a.change()
		}
		requests[i] = a.draw()
	}
	expiries, err := a.client.decide(a.now, requests...)
	if err != nil {
		a.t.Fatalf("step %d: %v", a.steps, err)
	}
	a.written = map[string]int64{}
	a.countAlone(requests)
	// A call decides first and settles then.
	slices.SortStableFunc(requests, func(x, y *shardRequest) int { return int(x.op/opSettle) - int(y.op/opSettle) })
	for _, got := range requests {
		a.replay(got)
		a.steps++
	}
	for key, got := range expiries {
		want := int64(-1)
		if full, written := a.written[key]; written && full > a.now {
			want = (full + 999) / 1_000
		} else if written {
			want = 0
			delete(a.states, key)
			a.done["full again"]++
		}
		if got != want {
			stored, _ := a.client.Get(a.t.Context(), key).Result()
			var in bucket.State
			decode(&in, stored)
			a.t.Fatalf("before step %d: %s expires at %d ms in Lua, %d in Go (now %d µs): %+v and %+v", a.steps, key, got, want, a.now, in, a.states[key])
		}
	}
}

// countAlone counts the admitted takes that shared no key with others: the
// script has fast paths for them.
func (a *agreement) countAlone(requests []*shardRequest) {
	named := map[string]int{}
	for _, got := range requests {
		for _, key := range got.keys {
			named[key]++
		}
	}
	for _, got := range requests {
		alone := got.op == opTake && got.admitted
		for _, key := range got.keys {
			alone = alone && named[key] == 1
		}
		switch {
		case alone && len(got.levels) == 1:
			a.done["alone, one band"]++
		case alone:
			a.done["alone, several"]++
		}
	}
}

// compareValues compares the stored values with the expected ones, byte by
// byte.
func (a *agreement) compareValues() {
	for _, key := range a.keys {
		stored, err := a.client.Get(a.t.Context(), key).Bytes()
		want := a.states[key]
		if err != nil || want == nil || len(want.Slots) == 0 {
			if stored != nil || want != nil && len(want.Slots) > 0 {
				a.t.Fatalf("before step %d: %s holds %x (%v), and %+v in Go", a.steps, key, stored, err, want)
			}
			continue
		}
		if !slices.Equal(stored, encodeValue(want)) {
			a.t.Fatalf("before step %d: %s holds %x, and %x in Go", a.steps, key, stored, encodeValue(want))
		}
		a.done["value compared"]++
	}
}

// The script and internal/bucket give equal results for random calls.
func TestScript_AgreesWithGo_NoRace(t *testing.T) {
	t.Run("token buckets", func(t *testing.T) { agree(t, false, false, *agreeSteps) })
	t.Run("all kinds", func(t *testing.T) { agree(t, true, false, *agreeSteps) })
	t.Run("single bands", func(t *testing.T) { agree(t, true, true, *agreeSteps/2) })
}

func agree(t *testing.T, mixed, single bool, steps int) {
	t.Parallel() // each has a server of its own
	server := testenv.StartStandalone(t, testenv.Config{})
	a := &agreement{t: t, mixed: mixed, single: single, r: rand.New(rand.NewPCG(3, 4)), client: newScriptClient(t, server), done: map[string]int{}}
	start, calls := time.Now(), 0
	for a.steps < steps {
		a.begin()
		for range 12 {
			a.pass()
			a.call()
			calls++
		}
		a.compareValues()
		if err := a.client.Del(t.Context(), a.keys...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d steps in %d calls, 0 differences, in %v: %v", a.steps, calls, time.Since(start).Round(time.Millisecond), a.done)
	counting := []string{"counted though over", "all alternatives over"}
	if !mixed {
		counting = nil
	}
	for _, what := range append(counting,
		"ok", "rejected", "too costly", "peek", "waited", "given back", "charged", "settled to nothing", "band change", "shadow did not fit",
		"carried over", "carried over beyond 2^53", "clock stepped back", "clock adopted", "full again", "value compared",
		"rejected before", "alone, one band", "alone, several", "granted in part",
		"overdrawn though rejected", "overdrawn to the largest debt", "overdrawn to nothing",
	) {
		if a.done[what] < steps/2_000 {
			t.Errorf("%q happened %d times only", what, a.done[what])
		}
	}
}

// takenAt is when takes takes.
const takenAt = int64(1_700_000_000_000_000)

// takes takes a token under each list of bands, one after the other at the same moment,
// and compares the values with those of internal/bucket.
func (c scriptClient) takes(lists ...[]store.ExactBand) (state bucket.State) {
	c.t.Helper()
	key := "fluxgate:{takes}:" + c.t.Name()
	for i, bands := range lists {
		request := newShardRequest(opTake, 0, time.Time{})
		request.demands, request.keys = []store.Demand{{Bands: bands, Cost: 1}}, []string{key}
		if _, err := c.decide(takenAt, request); err != nil {
			c.t.Fatal(err)
		}
		var v bucket.View
		state.View(bands, takenAt, &v)
		v.Take(bands, 1)
		state.Store(bands, &v)
		if got, want := c.Get(c.t.Context(), key).Val(), string(encodeValue(&state)); got != want {
			c.t.Fatalf("take %d: %x in Lua, %x in Go", i, got, want)
		}
	}
	return state
}

// A value has at most 16 records that no take asks for.
func TestScript_KeptRecords(t *testing.T) {
	var lists [][]store.ExactBand
	for i := range 20 {
		lists = append(lists, []store.ExactBand{fluxgate.Must(bucket.NewBand(uint32(i), 100+int64(i), 1, time.Hour))})
	}
	if state := newScriptClient(t, testenv.SharedStandalone(t)).takes(lists...); len(state.Slots) != 1+16 {
		t.Errorf("%d records", len(state.Slots))
	}
}

// What is used carries over to a band with another rate alone, and to a quota whose period
// begins with the take.
func TestScript_OtherBand(t *testing.T) {
	slow, fast := fluxgate.Must(bucket.NewBand(1, 10, 3, 7*time.Second)), fluxgate.Must(bucket.NewBand(1, 10, 9, 7*time.Second))
	quota := fluxgate.Must(bucket.NewQuota(1, 10, time.Hour))
	quota.Edges = [3]int64{takenAt, takenAt + 1e6, takenAt + 2e6}
	if slow.Limit != fast.Limit || slow.Rate == fast.Rate {
		t.Errorf("%+v and %+v differ in more than the rate", slow, fast)
	}
	for name, next := range map[string]store.ExactBand{"rate": fast, "kind": quota} {
		t.Run(name, func(t *testing.T) {
			newScriptClient(t, testenv.SharedStandalone(t)).takes([]store.ExactBand{slow}, []store.ExactBand{next})
		})
	}
}

// A charge begins a record beside those of other labels, up to the most that can be read.
func TestScript_ChargedRecords(t *testing.T) {
	client := newScriptClient(t, testenv.SharedStandalone(t))
	key := "fluxgate:{takes}:" + t.Name()
	state := bucket.State{At: takenAt}
	for id := range uint32(30) {
		state.Slots = append(state.Slots, bucket.Slot{ID: 100 + id, Used: 1, Limit: 1_000_000, Rate: 1})
	}
	if err := client.Set(t.Context(), key, encodeValue(&state), 0).Err(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{-2, -2, 0, 0} {
		band := fluxgate.Must(bucket.NewBand(uint32(i), 100, 1, time.Hour))
		if i == 3 {
			band = fluxgate.Must(bucket.NewWindow(uint32(i), 100, time.Hour))
		}
		request := newShardRequest(opSettle, 0, time.Time{})
		request.keys, request.actual = []string{key}, []int64{3}
		request.takes = store.Takes{{Bands: []store.ExactBand{band}, Cost: 1, At: takenAt}}
		if _, err := client.decide(takenAt, request); err != nil {
			t.Fatal(err)
		}
		tokens, _ := state.Settle(request.takes[0].Bands, bucket.Booking{Cost: 1, At: takenAt}, 3, takenAt)
		if request.tokens[0] != want || tokens != want {
			t.Errorf("charge %d of 2: %d in Lua, %d in Go", i, request.tokens[0], tokens)
		}
		if got, want := client.Get(t.Context(), key).Val(), string(encodeValue(&state)); got != want {
			t.Fatalf("charge %d: %x in Lua, %x in Go", i, got, want)
		}
	}
	var got bucket.State
	if ok := decode(&got, string(encodeValue(&state))); !ok || len(got.Slots) != 32 {
		t.Errorf("%d records, which can be read: %t", len(got.Slots), ok)
	}
}
