package server_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// budget is what a team may use, by measure.
type budget map[string]int64

// prices are millionths of a dollar for a million tokens: input, cached input, output
// and reasoning.
var prices = map[string][4]int64{
	"small": {150_000, 75_000, 600_000, 900_000},
	"large": {2_500_000, 1_250_000, 10_000_000, 12_000_000},
}

// budgetSettings are the settings of servers that share Redis, receipts and budgets for
// a year, in which nothing comes back. Each measure has a rule of its name. Models that
// are not known answer with 200,000 tokens by default.
func budgetSettings(t testing.TB, redis string, b budget, others ...string) []string {
	t.Helper()
	text := "id: api-limits\ncostTables:\n  usd:\n    '*': {input: 0, output: 1000000, maxOutputTokens: 200000}\n"
	for model, p := range prices {
		text += fmt.Sprintf("    %s: {input: %d, cachedInput: %d, output: %d, reasoning: %d}\n", model, p[0], p[1], p[2], p[3])
	}
	text += "rules:\n"
	for measure, capacity := range b {
		text += fmt.Sprintf("  - {id: %s, cost: %s, limitScope: USER_ID, onFailure: closed, bands: [{kind: quota, capacity: %d, period: year}]}\n", measure, measure, capacity)
	}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "rules.yaml"), text)
	write(t, filepath.Join(folder, "secret"), "a secret of servers that share")
	return append([]string{
		"redis.uri=" + redis, "redis.timeout=5s", "rules.file=" + filepath.Join(folder, "rules.yaml"), "mongo.enabled=false",
		"settle.receipt-secret-file=" + filepath.Join(folder, "secret"),
	}, others...)
}

// connect returns a client that waits for a busy machine, and for a connection rather than
// for the server, which bounds how long it settles.
func connect(t testing.TB, url string) *client.Client {
	t.Helper()
	c, err := client.New(url, client.Config{Timeout: time.Minute, MaxConns: 32, OnFailure: rules.FailClosed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// left is what a team has left in the store, by measure. Debt is negative.
func left(t testing.TB, c *client.Client, team string) budget {
	t.Helper()
	d, err := c.Check(t.Context(), &fluxgate.Request{UserID: team, Peek: true})
	if err != nil || d.Degraded {
		t.Errorf("cannot read the budget of %s: %v", team, err)
	}
	all := budget{}
	for b := range d.Bands() {
		all[b.Rule.ID] = b.Remaining - b.Owed
	}
	return all
}

// stream is a request to a language model. Its usage is known when it ends.
type stream struct {
	team           string
	estimate       fluxgate.Estimate
	usage          fluxgate.Usage
	reserved, used budget // what the estimate and the usage cost
	receipt        *fluxgate.Receipt
	at             time.Time // when it was admitted, by the store's clock
	sent, settled  int       // when its check was sent and its settlement answered, by events of the ledger
}

// quarters are the least and the most that a stream uses of its estimate, in quarters.
type quarters struct{ least, most int64 }

var upperBounds, underEstimated = quarters{3, 4}, quarters{1, 12}

// newStream returns a random stream.
func newStream(r *rand.Rand, team string, of quarters) *stream {
	s := &stream{team: team, estimate: fluxgate.Estimate{Model: "small"}}
	size := int64(10)
	switch team {
	case "tokens":
		size = 1_000
	case "usd":
		size, s.estimate.Model = 300, "large"
	}
	s.estimate.InputTokens, s.estimate.MaxOutputTokens = 1+r.Int64N(size), 1+r.Int64N(size)
	s.use(r, of)
	return s
}

// use chooses the usage and computes what everything costs.
func (s *stream) use(r *rand.Rand, of quarters) {
	e, u, p := &s.estimate, &s.usage, prices[s.estimate.Model]
	between := func(estimate int64) int64 {
		least := estimate * of.least / 4
		return least + r.Int64N(estimate*of.most/4-least+1)
	}
	u.InputTokens, u.OutputTokens = between(e.InputTokens), between(e.MaxOutputTokens)
	u.CachedInputTokens, u.ReasoningTokens = r.Int64N(u.InputTokens+1), r.Int64N(u.OutputTokens+1)
	roundUp := func(millionths int64) int64 { return (millionths + 999_999) / 1_000_000 }
	s.reserved = budget{"requests": 1, "tokens": e.InputTokens + e.MaxOutputTokens, "usd": roundUp(e.InputTokens*p[0] + e.MaxOutputTokens*p[3])}
	s.used = budget{"requests": 1, "tokens": u.InputTokens + u.OutputTokens, "usd": roundUp(
		(u.InputTokens-u.CachedInputTokens)*p[0] + u.CachedInputTokens*p[1] + (u.OutputTokens-u.ReasoningTokens)*p[2] + u.ReasoningTokens*p[3])}
}

// ledger has the streams that were admitted, and what they are charged at least at each
// moment: the usage of those that are being settled, the estimates of others.
type ledger struct {
	budget  budget
	anyRule bool // may refuse a stream

	mu             sync.Mutex
	events         int
	streams        []*stream
	charged, peaks map[string]budget // by team
	open, most     int               // streams, now and at the same time
}

func newLedger(b budget) *ledger {
	return &ledger{budget: b, charged: map[string]budget{}, peaks: map[string]budget{}}
}

// add adds to what a team is charged. The caller has the lock.
func (l *ledger) add(team string, amounts budget) {
	if l.charged[team] == nil {
		l.charged[team], l.peaks[team] = budget{}, budget{}
	}
	for measure, n := range amounts {
		l.charged[team][measure] += n
		l.peaks[team][measure] = max(l.peaks[team][measure], l.charged[team][measure])
	}
}

func (l *ledger) event() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events++
	return l.events
}

var errNotDecided = errors.New("the server has not decided")

// check asks for a stream, and enters it if it is admitted.
func (l *ledger) check(t testing.TB, c *client.Client, s *stream) (fluxgate.Decision, error) {
	s.sent = l.event()
	d, err := c.Check(t.Context(), &fluxgate.Request{UserID: s.team, Estimate: &s.estimate})
	if err == nil && d.Degraded {
		err = errNotDecided
	}
	if err != nil || !d.Allowed {
		return d, err
	}
	s.receipt, s.at = d.Receipt(), d.Time
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams = append(l.streams, s)
	l.add(s.team, s.reserved)
	l.open++
	l.most = max(l.most, l.open)
	return d, nil
}

// settle ends a stream. What it returns may be used by others before there is an
// answer, and what it charges is charged when there is one.
func (l *ledger) settle(t testing.TB, c *client.Client, s *stream) {
	returned, charged := budget{}, budget{}
	for measure := range s.used {
		difference := s.used[measure] - s.reserved[measure]
		returned[measure], charged[measure] = min(0, difference), max(0, difference)
	}
	l.mu.Lock()
	l.add(s.team, returned)
	l.open--
	l.mu.Unlock()
	settled, err := c.SettleUsage(t.Context(), s.receipt, &s.usage)
	for measure := range s.used {
		want := store.Settlement{Returned: -returned[measure], Charged: charged[measure]}
		if err != nil || settled[measure] != want {
			t.Errorf("settling %s of %s: %+v, want %+v, %v", measure, s.team, settled[measure], want, err)
		}
	}
	l.mu.Lock()
	l.add(s.team, charged)
	l.mu.Unlock()
	s.settled = l.event()
}

// ofTeam returns the streams of a team and what they are charged: the usage of those that
// were settled, the estimates of others.
func (l *ledger) ofTeam(team string) (streams []*stream, charged budget) {
	charged = budget{}
	for _, s := range l.streams {
		if s.team != team {
			continue
		}
		streams = append(streams, s)
		costs := s.reserved
		if s.settled > 0 {
			costs = s.used
		}
		for measure, n := range costs {
			charged[measure] += n
		}
	}
	return streams, charged
}

// underEstimates is by how much the streams were under-estimated that may have been open
// when the last of them was admitted.
func underEstimates(streams []*stream) budget {
	last := slices.MaxFunc(streams, func(a, b *stream) int { return cmp.Compare(a.at.UnixMicro(), b.at.UnixMicro()) })
	sum := budget{}
	for _, s := range streams {
		for measure := range s.used {
			if s.settled == 0 || s.settled > last.sent {
				sum[measure] += max(0, s.used[measure]-s.reserved[measure])
			}
		}
	}
	return sum
}

// verify compares the state in the store with the ledger, and the overrun with its bound.
func (l *ledger) verify(t testing.TB, c *client.Client) {
	t.Helper()
	for _, team := range slices.Sorted(maps.Keys(l.charged)) {
		streams, charged := l.ofTeam(team)
		bound, state := underEstimates(streams), left(t, c, team)
		for measure, most := range l.budget {
			if got, want := state[measure], most-charged[measure]; got != want {
				t.Errorf("%s has %d %s left, want %d", team, got, measure, want)
			}
			if over := charged[measure] - most; over > bound[measure] {
				t.Errorf("%s has used %d %s more than its budget, with under-estimates of %d in flight", team, over, measure, bound[measure])
			}
		}
		t.Logf("%s: %d streams used %v of %v", team, len(streams), charged, l.budget)
	}
}
