package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// probe is a store with helpers for tests.
type probe struct {
	*Store
	t       testing.TB
	ruleSet string
}

func newProbe(t testing.TB, s *Store) probe {
	return probe{s, t, "set-" + rand.Text()[:12]}
}

// demand is for cost tokens of an unused bucket.
func (p probe) demand(rule string, cost int64, bands ...rules.Band) store.Demand {
	p.t.Helper()
	d := store.Demand{Key: store.Key{RuleSet: p.ruleSet, Rule: rule}, Cost: cost, Bands: exactBands(p.t, bands...)}
	_, _ = rand.Read(d.Key.ID[:]) // never fails
	return d
}

func exactBands(t testing.TB, bands ...rules.Band) []store.ExactBand {
	t.Helper()
	exact := make([]store.ExactBand, len(bands))
	for i, b := range bands {
		var err error
		if exact[i], err = b.Exact(i); err != nil {
			t.Fatal(err)
		}
	}
	return exact
}

func (p probe) take(demands ...store.Demand) *store.Outcome {
	p.t.Helper()
	var out store.Outcome
	if err := p.Take(p.t.Context(), demands, &out); err != nil {
		p.t.Fatalf("Take: %v", err)
	}
	return &out
}

// left is what the first band of a bucket has left.
func (p probe) left(d store.Demand) int64 {
	p.t.Helper()
	var out store.Outcome
	if err := p.Peek(p.t.Context(), []store.Demand{d}, &out); err != nil {
		p.t.Fatalf("Peek: %v", err)
	}
	return out.Results[0].Bands[0].Remaining
}

// name is the key of a bucket in Redis.
func (p probe) name(d store.Demand) string { return p.names.key(&d.Key, p.fleet.generations()) }

// year is a band that gives back a token in 122 days.
var year = rules.Band{Capacity: 3, Refill: 366 * 24 * time.Hour}

// scriptCommands are the commands that our scripts may use, each of Redis 6.2
// or older, with the options they may use.
var scriptCommands = map[string][]string{
	"TIME": nil, "MGET": nil, "SET": nil, "PSETEX": nil, "DEL": nil, "HSETNX": nil, "HGETALL": nil,
	"HGET": nil, "HSET": nil, "HDEL": nil, "PUBLISH": nil,
	"ZADD": nil, "ZCOUNT": nil, "ZREM": nil, "ZSCORE": nil, "ZREMRANGEBYSCORE": nil, "ZRANGEBYSCORE": {"WITHSCORES", "LIMIT"}, "PEXPIRE": nil, "PTTL": nil,
	"XADD": {"MAXLEN"}, "XLEN": nil,
}

var (
	luaComment  = regexp.MustCompile(`--[^\n]*`)
	luaCall     = regexp.MustCompile(`\bp?call\s*\(([^\n]*)`)
	luaCommand  = regexp.MustCompile(`^'([A-Z]+)'(?:\)|, (KEYS\[|unpack\(KEYS\)))`)
	luaWord     = regexp.MustCompile(`'([A-Z]{2,})'`)
	luaOfRedis  = regexp.MustCompile(`\bredis\.\w+`)
	luaElsewise = regexp.MustCompile(`\b(loadstring|load|dofile|require|getfenv|setfenv|_G)\b`)
)

// The scripts use only commands of Redis 6.2, on declared keys.
func TestScript_Commands(t *testing.T) {
	files, _ := filepath.Glob("lua/*.lua") // a pattern that is valid
	modules, _ := filepath.Glob("lua/*/*.lua")
	used := map[string]bool{}
	for _, file := range append(files, modules...) {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code := luaComment.ReplaceAllString(string(source), "")
		for _, word := range luaOfRedis.FindAllString(code, -1) {
			if word != "redis.call" && word != "redis.pcall" {
				t.Errorf("%s uses %s, which this test does not understand", file, word)
			}
		}
		if word := luaElsewise.FindString(code); word != "" {
			t.Errorf("%s uses %s", file, word)
		}
		for _, call := range luaCall.FindAllStringSubmatch(code, -1) {
			if strings.HasPrefix(call[1], "'PUBLISH', ARGV[7], ''") { // a channel is no key
				used["PUBLISH"] = true
				continue
			}
			m := luaCommand.FindStringSubmatch(call[1])
			if m == nil {
				t.Errorf("%s: call(%s names no command, or a key that is not of KEYS", file, call[1])
				continue
			}
			options, allowed := scriptCommands[m[1]]
			if !allowed || m[2] == "" && m[1] != "TIME" {
				t.Errorf("%s: call(%s is not on the list", file, call[1])
			}
			for _, word := range luaWord.FindAllStringSubmatch(call[1], -1)[1:] {
				if !slices.Contains(options, word[1]) {
					t.Errorf("%s: %s with %s is not on the list", file, m[1], word[1])
				}
			}
			used[m[1]] = true
		}
	}
	for command := range scriptCommands {
		if !used[command] {
			t.Errorf("%s is on the list and not used, or this test does not see it", command)
		}
	}
}

// The store sends only the documented commands.
func TestStore_Commands(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	if _, err := server.Do(t.Context(), "CONFIG", "RESETSTAT"); err != nil {
		t.Fatal(err)
	}
	p := newProbe(t, openStore(t, server.URI(), Config{Refresh: 10 * time.Millisecond}))
	useEverything(p)
	info, err := server.Info(t.Context(), "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	seen := slices.Sorted(maps.Keys(info))
	t.Logf("the server has seen %v", seen)
	ours := []string{"hello", "ping", "info", "evalsha", "eval", "getrange", "subscribe", "xrange", "xrevrange", "xdel", "config|resetstat"}
	for command := range scriptCommands {
		ours = append(ours, strings.ToLower(command))
	}
	for _, name := range seen {
		if command := strings.TrimPrefix(name, "cmdstat_"); !slices.Contains(ours, command) {
			t.Errorf("the server was sent %s", command)
		}
	}
	if info["cmdstat_evalsha"] == "" || info["cmdstat_hset"] == "" {
		t.Error("it was not used")
	}
}

// useEverything does all that a gateway does with a store.
func useEverything(p probe) {
	p.t.Helper()
	if err := p.everything(); err != nil {
		p.t.Fatal(err)
	}
}

// warn adds a warning, and removes it as one that is delivered.
func (p probe) warn() error {
	ctx, w := p.t.Context(), store.Warning{Key: p.demand("rule", 1, rules.PerHour(1)).Key, At: 1, Ends: time.Now().Add(time.Hour).UnixMicro()}
	if err := p.Warn(ctx, &w); err != nil {
		return err
	}
	pending, err := p.PendingWarnings(ctx, "", 10)
	recent, err2 := p.RecentWarnings(ctx, 10)
	_, err3 := p.LeadWarnings(ctx, time.Minute)
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	for i := range pending {
		if err := p.DeliveredWarning(ctx, &pending[i]); err != nil {
			return err
		}
	}
	if len(pending) == 0 || len(recent) == 0 {
		return fmt.Errorf("pending are %+v, recent %+v", pending, recent)
	}
	return nil
}

func (p probe) everything() error {
	ctx := p.t.Context()
	d := p.demand("rule", 2, rules.PerHour(10))
	other := p.demand("other", 2, rules.PerHour(10))
	demands := []store.Demand{d, other}
	var out, after store.Outcome
	if err := p.Take(ctx, demands, &out); err != nil || !out.Admitted() {
		return fmt.Errorf("taking: %w, %+v", err, out)
	}
	if err := p.Peek(ctx, demands, &after); err != nil || after.Results[1].Bands[0].Remaining != 8 {
		return fmt.Errorf("peeking: %w, %+v", err, after)
	}
	if _, err := p.Settle(ctx, store.NewTakes(demands, &out), []int64{0, 0}); err != nil {
		return fmt.Errorf("settling: %w", err)
	}
	slot := p.demand("slots", 1, rules.Band{Kind: rules.Concurrency, Capacity: 1, Hold: time.Minute})
	slot.Holder = store.HolderID{1}
	for range 2 { // the second does not fit
		if err := p.Take(ctx, []store.Demand{slot}, &after); err != nil {
			return fmt.Errorf("holding a slot: %w", err)
		}
	}
	held := store.Takes{{Key: slot.Key, Bands: slot.Bands, Cost: 1, Holder: slot.Holder}}
	if ok, err := p.Extend(ctx, held); err != nil || !ok[0] {
		return fmt.Errorf("renewing a slot: %w, %t", err, ok)
	}
	if _, err := p.Settle(ctx, held, []int64{1}); err != nil {
		return fmt.Errorf("releasing a slot: %w", err)
	}
	for _, what := range []store.Key{d.Key, {RuleSet: p.ruleSet, Rule: "rule"}, {RuleSet: p.ruleSet}} {
		if _, err := p.Reset(ctx, store.Reset{Key: what}); err != nil {
			return err
		}
	}
	if err := p.WriteReport(ctx, []byte("a report"), time.Minute); err != nil {
		return err
	}
	if _, err := p.Reports(ctx, 100); err != nil {
		return err
	}
	if err := p.warn(); err != nil {
		return fmt.Errorf("warning: %w", err)
	}
	if h := p.Health(ctx); !h.Healthy() {
		return fmt.Errorf("not healthy: %+v", h)
	}
	return nil
}

// State of another version is an error that names the version.
func TestScript_OtherStateVersion(t *testing.T) {
	server := testenv.SharedStandalone(t)
	p := newProbe(t, openStore(t, server.URI(), Config{}))
	client := newScriptClient(t, server)
	bad := p.demand("rule", 1, year)
	slidingState := bucket.State{At: 1, Slots: []bucket.Slot{{Kind: bucket.Window, Limit: 9, Steps: &bucket.Steps{Newest: 1, Length: 1}}}}
	waiting := bucket.State{At: 1, Hold: 1, Slots: []bucket.Slot{{Used: 1, Limit: 9, Rate: 1}}}
	kept := bucket.State{At: 1, Slots: []bucket.Slot{{Used: 1, Limit: 9, Rate: 1, Since: 1}}}
	emptySlot := bucket.State{At: 1, Slots: []bucket.Slot{{Kind: bucket.Window, Limit: 9, Steps: &bucket.Steps{Newest: 1}}}}
	for name, value := range map[string]string{
		"version 1":        "\x01 what an earlier gateway wrote, and we cannot read",
		"no rate":          string(encodeValue(&bucket.State{At: 1, Slots: []bucket.Slot{{Used: 1, Limit: 9}}})),
		"version 7":        "\x07 what a later gateway wrote, and we cannot read",
		"empty":            "",
		"truncated":        string(encodeValue(&bucket.State{At: 1, Slots: []bucket.Slot{{Used: 1, Limit: 9, Rate: 1}}})[:20]),
		"without bands":    string(encodeValue(&bucket.State{At: 1})),
		"too many bands":   string(encodeValue(&bucket.State{At: 1, Slots: slices.Repeat([]bucket.Slot{{Limit: 9, Rate: 1}}, 33)})),
		"somebody's value": "hello",
		"a short window":   string(encodeValue(&slidingState)[:100]),
		"a part of a tag":  string(encodeValue(&bucket.State{At: 1, Slots: []bucket.Slot{{Used: 1, Limit: 9, Rate: 1}}})) + "ab",
		"a short hold":     string(encodeValue(&waiting)[:40]),
		"behind a hold":    string(encodeValue(&waiting)) + "a",
		"two holds":        string(encodeValue(&waiting)) + string(encodeValue(&waiting)[8:]),
		"a short record":   string(encodeValue(&kept)[:8+25+6]),
		"an empty slot":    string(encodeValue(&emptySlot)),
		"an unknown kind":  string(encodeValue(&bucket.State{At: 1, Slots: []bucket.Slot{{Kind: 9, Limit: 9}}})),
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			window := p.demand("rule", 1, rules.Band{Kind: rules.SlidingWindow, Capacity: 2, Refill: time.Hour})
			client.Set(ctx, p.name(window), value, time.Minute)
			version := fmt.Sprintf("a bucket has state of version %d", append([]byte(value), 0)[0])
			if err := p.Take(ctx, []store.Demand{window}, new(store.Outcome)); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), version) {
				t.Errorf("the error under a sliding window is %v", err)
			}
			client.Set(ctx, p.name(bad), value, time.Minute)
			var out store.Outcome
			err := p.Take(ctx, []store.Demand{bad}, &out)
			if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), version) {
				t.Fatalf("the error is %v", err)
			}
			// Beside other demands it is unavailable and ignored.
			good := p.demand("rule", 1, year)
			both := p.take(bad, good)
			if both.Admission != store.Undecided || both.Results[0].Status != store.Unavailable || both.Results[1].Status != store.OK || p.left(good) != 2 {
				t.Errorf("beside another bucket: %+v", both)
			}
			if h := p.Health(ctx); h.Healthy() || !strings.Contains(fmt.Sprint(h.Err), version) {
				t.Errorf("health is %+v", h)
			}
			if got := client.Get(ctx, p.name(bad)).Val(); got != value {
				t.Errorf("the value was changed to %x", got)
			}
			if _, err := p.Reset(ctx, store.Reset{Key: bad.Key}); err != nil {
				t.Fatal(err)
			}
			if out := p.take(bad); !out.Admitted() {
				t.Errorf("rejected after a reset of the key: %+v", out)
			}
		})
	}
}

// State of another version is an error also where it has the shape of ours. So is ours with
// bytes behind it, or with a kind that does not exist.
func TestScript_OtherStateVersion_SameShape(t *testing.T) {
	server := testenv.SharedStandalone(t)
	p, client := newProbe(t, openStore(t, server.URI(), Config{})), newScriptClient(t, server)
	for name, bands := range map[string][]rules.Band{
		"token bucket":       {year},
		"two token buckets":  {year, rules.PerHour(9)},
		"quota":              {{Kind: rules.Quota, Capacity: 9, Period: "month"}},
		"window":             {{Kind: rules.SlidingWindow, Capacity: 9, Refill: time.Hour}},
		"quota and a bucket": {year, {Kind: rules.Quota, Capacity: 9, Period: "month"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := p.demand("rule", 1, bands...)
			for i := range d.Bands {
				now, hour := time.Now().UnixMicro(), time.Hour.Microseconds()
				d.Bands[i].Edges = [3]int64{now - hour, now + hour, now + 2*hour} // of a quota
			}
			p.take(d)
			value := client.Get(t.Context(), p.name(d)).Val()
			for _, value := range []string{
				"\x07" + value[1:], value + strings.Repeat("\x00", len(bands)), value[:11] + "\x09" + value[12:],
				value + strings.Repeat("\x09", 11), // as long as a hold
			} {
				client.Set(t.Context(), p.name(d), value, time.Minute)
				err := p.Take(t.Context(), []store.Demand{d}, new(store.Outcome))
				if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), fmt.Sprintf("version %d", value[0])) {
					t.Errorf("the error is %v, and the value %x", err, value)
				}
				if got := client.Get(t.Context(), p.name(d)).Val(); got != value {
					t.Errorf("the value was changed to %x", got)
				}
			}
		})
	}
}

// A damaged bucket does not affect other requests of the call.
func TestScript_DamagedBucket(t *testing.T) {
	server := testenv.SharedStandalone(t)
	p := newProbe(t, openStore(t, server.URI(), Config{}))
	bad := p.demand("rule", 1, year)
	newScriptClient(t, server).Set(t.Context(), p.name(bad), "hello", time.Minute)
	var failed sync.Map
	for range 20 {
		var wg sync.WaitGroup
		for i := range 64 {
			d := p.demand("rule", 1, year)
			if i%16 == 1 {
				d = bad
			}
			wg.Go(func() {
				var out store.Outcome
				if err := p.Take(t.Context(), []store.Demand{d}, &out); err != nil {
					failed.Store(d.Key, err)
				} else if left := p.left(d); left != 2 {
					t.Errorf("a neighbour has %d of 3 tokens left after one was taken", left)
				}
			})
		}
		wg.Wait()
	}
	failed.Range(func(key, err any) bool {
		if key != bad.Key {
			t.Errorf("a neighbour in the same call failed: %v", err)
		}
		return true
	})
	if _, ok := failed.Load(bad.Key); !ok {
		t.Error("the damaged bucket itself was answered")
	}
}

// A value of another type counts as absent.
func TestScript_OtherType(t *testing.T) {
	server := testenv.SharedStandalone(t)
	p := newProbe(t, openStore(t, server.URI(), Config{}))
	client := newScriptClient(t, server)
	d := p.demand("rule", 1, year)
	client.HSet(t.Context(), p.name(d), "field", "value")
	if left := p.left(d); left != 3 {
		t.Errorf("%d left of 3", left)
	}
	if kind := client.Type(t.Context(), p.name(d)).Val(); kind != "hash" {
		t.Errorf("a peek made it a %s", kind)
	}
	if p.take(d); p.left(d) != 2 {
		t.Errorf("%d left of 3 after one was taken", p.left(d))
	}
}

// A key expires when its bucket is full.
func TestScript_Expiry(t *testing.T) {
	server := testenv.SharedStandalone(t)
	p := newProbe(t, openStore(t, server.URI(), Config{}))
	client := newScriptClient(t, server)
	for name, test := range map[string]struct {
		band rules.Band
		cost int64
		full time.Duration
	}{
		"one per millisecond":       {rules.Band{Capacity: 5_000, RefillTokens: 1, Refill: time.Millisecond}, 2_000, 2 * time.Second},
		"three per 366 days":        {year, 3, 366 * 24 * time.Hour},
		"a day's quota in one take": {rules.PerDay(1_000), 1_000, 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			d := p.demand("rule", test.cost, test.band)
			out := p.take(d)
			pipe := client.TxPipeline()
			ttl, now := pipe.PTTL(t.Context(), p.name(d)), pipe.Time(t.Context())
			if _, err := pipe.Exec(t.Context()); err != nil {
				t.Fatal(err)
			}
			if full := out.Results[0].Bands[0].FullAfter; full != test.full {
				t.Errorf("full after %v, not %v", full, test.full)
			}
			want := time.UnixMicro(out.Results[0].Now).Add(test.full)
			// PTTL counts from the current millisecond, or the one before.
			got := now.Val().Truncate(time.Millisecond).Add(ttl.Val())
			t.Logf("it expires %v after the moment it is full", got.Sub(want))
			if late := got.Sub(want); late < 0 || late > 3*time.Millisecond {
				t.Errorf("it expires %v after the moment it is full, %v", late, want)
			}
		})
	}
}

func TestScript_ExpiredBucketIsFull(t *testing.T) {
	server := testenv.SharedStandalone(t)
	p := newProbe(t, openStore(t, server.URI(), Config{}))
	client := newScriptClient(t, server)
	d := p.demand("rule", 5, rules.Band{Capacity: 5, Refill: 50 * time.Millisecond})
	out := p.take(d)
	for client.Exists(t.Context(), p.name(d)).Val() == 1 {
		if t.Context().Err() != nil {
			t.Fatal("it never expires")
		}
	}
	var after store.Outcome
	if err := p.Peek(t.Context(), []store.Demand{d}, &after); err != nil {
		t.Fatal(err)
	}
	if got := after.Results[0].Bands[0].Remaining; got != 5 {
		t.Errorf("%d left of 5", got)
	}
	if gone := time.Duration(after.Results[0].Now-out.Results[0].Now) * time.Microsecond; gone < 50*time.Millisecond {
		t.Errorf("it was gone after %v", gone)
	}
}

// A settlement that fills the bucket deletes the key.
func TestScript_SettleDeletesKey(t *testing.T) {
	server := testenv.SharedStandalone(t)
	p := newProbe(t, openStore(t, server.URI(), Config{}))
	client := newScriptClient(t, server)
	d := p.demand("rule", 3, year)
	out := p.take(d)
	if n := client.Exists(t.Context(), p.name(d)).Val(); n != 1 {
		t.Fatal("nothing was written")
	}
	s, err := p.Settle(t.Context(), store.NewTakes([]store.Demand{d}, out), []int64{0})
	if err != nil {
		t.Fatal(err)
	}
	if n := client.Exists(t.Context(), p.name(d)).Val(); n != 0 || p.left(d) != 3 {
		t.Errorf("%d keys and %d of 3 tokens are left after %+v", n, p.left(d), s)
	}
}

func TestScript_RejectionWritesNothing(t *testing.T) {
	server := testenv.SharedStandalone(t)
	p := newProbe(t, openStore(t, server.URI(), Config{}))
	client := newScriptClient(t, server)
	d := p.demand("rule", 3, year)
	p.take(d)
	value, ttl := client.Get(t.Context(), p.name(d)).Val(), client.PExpireTime(t.Context(), p.name(d)).Val()
	for range 50 {
		if p.take(d).Admitted() {
			t.Fatal("admitted")
		}
	}
	if got := client.Get(t.Context(), p.name(d)).Val(); got != value {
		t.Errorf("the value changed from %x to %x", value, got)
	}
	if got := client.PExpireTime(t.Context(), p.name(d)).Val(); got != ttl {
		t.Errorf("the expiry changed from %v to %v", ttl, got)
	}
}

// The largest possible call is accepted.
func TestScript_LargestCall(t *testing.T) {
	server := testenv.SharedStandalone(t)
	p := newProbe(t, openStore(t, server.URI(), Config{}))
	bands := make([]rules.Band, store.MaxBands)
	for i := range bands {
		bands[i] = rules.PerHour(int64(i + 10))
	}
	demands := make([]store.Demand, store.MaxMatches)
	for i := range demands {
		demands[i] = p.demand("rule", 1, bands...)
	}
	start := time.Now()
	out := p.take(demands...)
	t.Logf("%d demands of %d bands each in one call: %v", len(demands), len(bands), time.Since(start))
	if !out.Admitted() {
		t.Fatal("rejected")
	}
	if _, err := p.Settle(t.Context(), store.NewTakes(demands, out), make([]int64, len(demands))); err != nil {
		t.Fatal(err)
	}
	if err := p.Take(t.Context(), append(demands, p.demand("rule", 1, bands...)), out); !errors.Is(err, store.ErrDemand) {
		t.Errorf("one demand more: %v", err)
	}

	// The same number of concurrent callers.
	var wg sync.WaitGroup
	for _, d := range slices.Concat(demands, demands) {
		wg.Go(func() {
			var out store.Outcome
			if err := p.Take(context.Background(), []store.Demand{d}, &out); err != nil || !out.Admitted() {
				t.Errorf("Take: %v, %+v", err, out)
			}
		})
	}
	wg.Wait()
}

// Lists of bands that share memory are different lists if their lengths differ.
func TestScriptCall_BandsThatShareMemory(t *testing.T) {
	server := testenv.SharedStandalone(t)
	client := newScriptClient(t, server)
	bands := exactBands(t, rules.PerHour(10), rules.PerHour(20), rules.PerHour(30))
	var requests []*shardRequest
	for n := 1; n <= len(bands); n++ {
		r := newShardRequest(opTake, 0, time.Time{})
		r.keys = []string{"fluxgate:{shared}:" + rand.Text()}
		r.demands = []store.Demand{{Bands: bands[:n], Cost: 15}}
		requests = append(requests, r)
	}
	for n := len(bands); n > 0; n-- {
		r := newShardRequest(opTake, 0, time.Time{})
		r.keys = []string{"fluxgate:{shared}:" + rand.Text()}
		r.demands = []store.Demand{{Bands: bands[n-1:], Cost: 15}}
		requests = append(requests, r)
	}
	if _, err := client.decide(0, requests...); err != nil {
		t.Fatal(err)
	}
	for i, r := range requests {
		want := r.demands[0].Bands[0].Capacity >= 15
		if r.admitted != want || len(r.levels) != len(r.demands[0].Bands) {
			t.Errorf("ask %d of %d bands: admitted %t, levels %v", i, len(r.demands[0].Bands), r.admitted, r.levels)
		}
	}
}
