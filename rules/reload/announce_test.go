package reload_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/store/redisstore"
	"github.com/redis/go-redis/v9"
)

var secret = reload.Secret("thirty-two bytes that nobody knows")

func newClient(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// newFleet is an editor whose changes are announced and gateways that listen
// through addr.
func newFleet(t testing.TB, server *testenv.Server, addr string, gateways int, config reload.Config) (rules.Editor, []*reload.Reloader) {
	t.Helper()
	client := newClient(t, server.Addr())
	source, err := redisrules.New(client, redisrules.Config{Prefix: prefix(t)})
	if err != nil {
		t.Fatal(err)
	}
	channel := prefix(t) + ":rule-reload"
	announcer, err := reload.NewAnnouncer(client, reload.AnnouncerConfig{Channel: channel, Secret: secret, Source: "test"})
	if err != nil {
		t.Fatal(err)
	}
	editor := reload.Announcing(source, announcer, nil)
	put(t, editor, "set", 1)
	config.RuleSets, config.Channel, config.Secret = []string{"set"}, channel, secret
	fleet := make([]*reload.Reloader, gateways)
	for i := range fleet {
		config.Redis = newClient(t, addr)
		fleet[i] = start(t, source, config)
	}
	for _, r := range fleet {
		until(t, "it listens", func() bool { return r.Stats().Subscribed > 0 })
	}
	return editor, fleet
}

func prefix(t testing.TB) string { return strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()) }

// TestAnAnnouncedChangeIsSoonInEffectEverywhere has no polling that could help.
func TestAnAnnouncedChangeIsSoonInEffectEverywhere(t *testing.T) {
	server := testenv.SharedStandalone(t)
	editor, fleet := newFleet(t, server, server.Addr(), 20, reload.Config{Interval: never})
	var took []time.Duration
	for c := int64(2); c < 12; c++ {
		var mu sync.Mutex
		var all sync.WaitGroup
		revision := put(t, editor, "set", c)
		committed := time.Now()
		for _, r := range fleet {
			all.Go(func() {
				until(t, "the change is in effect", func() bool { return status(t, r, "set").Revision >= revision })
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(committed))
			})
		}
		all.Wait()
	}
	slices.Sort(took)
	t.Logf("from commit to effect on %d gateways: median %v, slowest %v", len(fleet), took[len(took)/2], took[len(took)-1])
}

// TestWhoeverMissedAnAnnouncementPolls cuts every gateway off while rules
// change.
func TestWhoeverMissedAnAnnouncementPolls(t *testing.T) {
	server := testenv.SharedStandalone(t)
	proxy := testenv.StartProxy(t, server.Addr())
	editor, fleet := newFleet(t, server, proxy.Addr(), 5, reload.Config{Interval: 300 * time.Millisecond})
	proxy.Refuse()
	proxy.Cut()
	put(t, editor, "set", 2)
	for _, r := range fleet {
		until(t, "polling sees the change", func() bool { return capacity(t, r, "set") == 2 })
		if heard := r.Stats().Messages.Heard; heard != 0 {
			t.Errorf("%d announcements came through a cut connection", heard)
		}
	}
}

// TestListeningAgainLooksAgain has announcements alone: what was said while
// the connection was away is not missed.
func TestListeningAgainLooksAgain(t *testing.T) {
	server := testenv.SharedStandalone(t)
	proxy := testenv.StartProxy(t, server.Addr())
	editor, fleet := newFleet(t, server, proxy.Addr(), 2, reload.Config{Strategy: reload.PubSub, Interval: never})
	proxy.Refuse()
	proxy.Cut()
	put(t, editor, "set", 2)
	if err := proxy.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, r := range fleet {
		until(t, "the change is in effect", func() bool { return capacity(t, r, "set") == 2 })
	}
}

// TestOnlyGoodMessagesAreHeard sends what nobody should act on, and counts
// what the gateway asks its source.
func TestOnlyGoodMessagesAreHeard(t *testing.T) {
	server := testenv.SharedStandalone(t)
	editor, fleet := newFleet(t, server, server.Addr(), 1, reload.Config{Strategy: reload.PubSub, Interval: never, Jitter: -1})
	r, client, channel := fleet[0], newClient(t, server.Addr()), prefix(t)+":rule-reload"

	// One good message, as it is on the wire.
	listener := client.Subscribe(t.Context(), channel)
	defer listener.Close()
	if _, err := listener.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, editor, "set", 2)
	m, err := listener.ReceiveMessage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	good := m.Payload
	until(t, "the change is in effect", func() bool { return capacity(t, r, "set") == 2 && r.Stats().Messages.Heard == 1 })
	before := r.Stats()
	for still := time.Now(); time.Since(still) < 200*time.Millisecond; { // the looks that it asked for have ended
		if now := r.Stats(); now.Looks != before.Looks {
			before, still = now, time.Now()
		}
		time.Sleep(5 * time.Millisecond)
	}

	alter := func(field string, value any) string {
		var fields map[string]any
		if err := json.Unmarshal([]byte(good), &fields); err != nil {
			t.Fatal(err)
		}
		fields[field] = value
		text, _ := json.Marshal(fields)
		return string(text)
	}
	malformed := []string{
		"", "{}", "[]", "reload!", `"set"`, good[:len(good)/2], good + good, good + "x", "{" + good,
		alter("ruleSetId", 5), alter("ruleSetId", "no spaces"), alter("ruleSetId", ""), alter("ruleSetId", nil),
		alter("revision", "seventeen"), alter("revision", 1e300), alter("fullReload", "yes"), alter("timestamp", "now"),
		strings.Repeat("[", 10_000), alter("source", strings.Repeat("x", 5_000)), "\x00\xff\xfe",
	}
	unsigned := []string{
		alter("signature", ""), alter("signature", nil), alter("signature", strings.Repeat("0", 64)), alter("revision", 3),
		alter("ruleSetId", "other"), alter("fullReload", true), "*", "set", "null", alter("timestamp", time.Now().UnixMilli()), alter("source", "me"),
	}
	const rounds = 35
	sent := 0
	for range rounds {
		for _, payload := range slices.Concat(malformed, unsigned, []string{good}) {
			if err := client.Publish(t.Context(), channel, payload).Err(); err != nil {
				t.Fatal(err)
			}
			sent++
		}
	}
	until(t, "all are counted", func() bool {
		m := r.Stats().Messages
		return m.Malformed+m.Unsigned+m.Replayed >= uint64(sent)
	})
	after := r.Stats()
	want := reload.MessageStats{
		Heard: before.Messages.Heard, Unneeded: before.Messages.Unneeded,
		Malformed: rounds * uint64(len(malformed)), Unsigned: rounds * uint64(len(unsigned)), Replayed: rounds,
	}
	if after.Messages != want {
		t.Errorf("counted %+v, want %+v", after.Messages, want)
	}
	if after.Looks != before.Looks || after.Loads != before.Loads || after.Swaps != before.Swaps {
		t.Errorf("%d bad messages: %+v before, %+v after", sent, before, after)
	}
	t.Logf("%d messages changed nothing: %+v", sent, after.Messages)
}

// TestBucketsAreResetOnceForTheFleet has gateways that all hear of a change
// and share one Redis.
func TestBucketsAreResetOnceForTheFleet(t *testing.T) {
	server := testenv.StartStandalone(t, testenv.Config{})
	client := newClient(t, server.Addr())
	source, err := redisrules.New(client, redisrules.Config{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, source, "set", 10)
	const gateways = 10
	var engines []*fluxgate.Engine
	var fleet []*reload.Reloader
	for range gateways {
		store, err := redisstore.Open(t.Context(), server.URI(), redisstore.Config{Timeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		r := start(t, source, reload.Config{RuleSets: []string{"set"}, Interval: never, ResetBuckets: store})
		engine, err := fluxgate.New(store, r, fluxgate.WithRuleSet("set"))
		if err != nil {
			t.Fatal(err)
		}
		engines, fleet = append(engines, engine), append(fleet, r)
	}
	take := func(cost int64) fluxgate.Decision {
		d, err := engines[0].Check(t.Context(), &fluxgate.Request{Cost: cost})
		if err != nil || !d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
		return d
	}
	take(4)
	put(t, source, "set", 20)
	// The first gateway resets, and then somebody takes.
	if err := fleet[0].Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := take(5); d.Remaining != 15 {
		t.Errorf("%d of 20 are left of a bucket that was reset", d.Remaining)
	}
	var all sync.WaitGroup
	for _, r := range fleet[1:] {
		all.Go(func() {
			if err := r.Reload(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	var resets uint64
	for i, r := range fleet {
		resets += r.Stats().Resets
		d, err := engines[i].Check(t.Context(), &fluxgate.Request{Peek: true})
		if err != nil || d.Remaining != 15 {
			t.Errorf("gateway %d sees %d left: %v", i, d.Remaining, err)
		}
	}
	if resets != 1 {
		t.Errorf("%d gateways made %d resets of one change", gateways, resets)
	}
}
