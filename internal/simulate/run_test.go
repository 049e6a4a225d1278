package simulate

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// replayed replays texts as logs.
func replayed(t testing.TB, cfg Config, logs ...string) *Report {
	t.Helper()
	for i, text := range logs {
		cfg.Logs = append(cfg.Logs, Input{fmt.Sprint("log-", i), strings.NewReader(text)})
	}
	report, err := Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func ruleSet(t testing.TB, list ...rules.Rule) *rules.Set {
	t.Helper()
	set, err := rules.NewSet("api-limits", list...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// manyRules are of every kind, scope, mode and action.
func manyRules(t testing.TB, tight int64) *rules.Set {
	t.Helper()
	minute := []rules.Band{rules.PerMinute(30 * tight), {Label: "burst", Capacity: 3 * tight, Refill: time.Second}}
	return ruleSet(t,
		rules.Rule{ID: "per-ip", Scope: rules.ScopeIP, Bands: minute, Paths: []string{"/api/**"}},
		rules.Rule{ID: "per-user", Scope: rules.ScopeUser, Bands: []rules.Band{{Kind: rules.SlidingWindow, Capacity: 20 * tight, Refill: time.Minute}}, Paths: []string{"/api/**"}},
		rules.Rule{ID: "daily", Scope: rules.ScopeUser, Bands: []rules.Band{{Kind: rules.Quota, Capacity: 200 * tight, Period: "hour", Timezone: "Asia/Kolkata"}}},
		rules.Rule{ID: "keys", Scope: rules.ScopeAPIKey, OnMissingIdentity: rules.MissingRefuse, Bands: minute, Paths: []string{"/keys/**"}},
		rules.Rule{ID: "composite", Scope: rules.ScopeComposite, KeyFields: []string{"method", "path", "header:X-Plan"}, Bands: minute, Mode: rules.ModeShadow},
		rules.Rule{ID: "cost", Cost: "tokens", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerMinute(100 * tight)}, Paths: []string{"/keys/**"}},
		rules.Rule{ID: "open", Action: rules.ActionAllow, Paths: []string{"/open"}, Priority: 9},
		rules.Rule{ID: "closed", Action: rules.ActionDeny, Paths: []string{"/closed"}, When: rules.When{Headers: map[string][]string{"X-Plan": {"gold"}}}, Priority: 8},
	)
}

// randomRequest is one of a few callers', at most seconds after the one before.
type randomRequest struct {
	at  time.Time
	req fluxgate.Request
}

func randomRequests(n int, start time.Time) []randomRequest {
	random := rand.New(rand.NewPCG(17, 2))
	paths := []string{"/api/orders", "/api/a%2Fb", "/api//x", "/keys/1", "/open", "/closed", "/other", "/bad#path"}
	requests := make([]randomRequest, n)
	for i := range requests {
		start = start.Add(time.Duration(random.ExpFloat64() * float64(80*time.Millisecond)).Truncate(time.Microsecond))
		r := fluxgate.Request{
			IP: netip.AddrFrom4([4]byte{192, 0, 2, byte(random.IntN(20))}), Method: []string{"GET", "POST"}[random.IntN(2)], Path: paths[random.IntN(len(paths))],
			Cost: int64(1 + random.IntN(2)),
		}
		if random.IntN(3) > 0 {
			r.UserID = fmt.Sprint("user-", random.IntN(30))
		}
		if random.IntN(2) > 0 {
			r.APIKey = fmt.Sprint("secret-", random.IntN(9))
			r.Costs = map[string]int64{"tokens": random.Int64N(200)}
		}
		if random.IntN(3) > 0 {
			r.Headers = map[string][]string{"X-Plan": {[]string{"gold", "free"}[random.IntN(2)]}}
		}
		requests[i] = randomRequest{start, r}
	}
	return requests
}

var randomMapping = []string{"time=ts", "ip=client.ip", "user=who", "apiKey=key", "header.X-Plan=plan", "cost=units", "cost.tokens=tokens"}

// jsonLog writes requests as a log of JSON lines.
func jsonLog(t testing.TB, requests []randomRequest) string {
	t.Helper()
	var b strings.Builder
	for _, r := range requests {
		line := map[string]any{"ts": r.at.Format(time.RFC3339Nano), "client": map[string]any{"ip": r.req.IP}, "method": r.req.Method, "path": r.req.Path, "units": r.req.Cost}
		if r.req.UserID != "" {
			line["who"] = r.req.UserID
		}
		if r.req.APIKey != "" {
			line["key"], line["tokens"] = r.req.APIKey, r.req.Costs["tokens"]
		}
		if r.req.Headers != nil {
			line["plan"] = r.req.Headers["X-Plan"][0]
		}
		text, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	return b.String()
}

// A simulation decides 100,000 requests as an engine does that was there: one with the
// store and the clock of a server, in a bubble in which time passes as in the log.
func TestRun_EqualsEngine_NoRace(t *testing.T) {
	const n = 100_000
	set := manyRules(t, 1)
	var requests []randomRequest
	live := make([]fluxgate.Decision, n)
	synctest.Test(t, func(t *testing.T) {
		store, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		engine, err := fluxgate.New(store, fluxgate.Static(set))
		if err != nil {
			t.Fatal(err)
		}
		requests = randomRequests(n, time.Now().UTC().Add(time.Second))
		for i := range requests {
			time.Sleep(time.Until(requests[i].at))
			if live[i], err = engine.Check(t.Context(), &requests[i].req); err != nil {
				t.Fatal(err)
			}
		}
	})
	r, err := newReplay(Config{Proposed: set})
	if err != nil {
		t.Fatal(err)
	}
	logs, err := openLogs([]Input{{"log", strings.NewReader(jsonLog(t, requests))}}, randomMapping)
	if err != nil {
		t.Fatal(err)
	}
	reasons, rejected := map[string]int64{}, map[string]int64{}
	i := 0
	for s := earliest(logs); s != nil; s = earliest(logs) {
		before := r.report.Limited
		if err := r.step(t.Context(), s.entry); err != nil {
			t.Fatal(err)
		}
		if limited := r.report.Limited > before; limited == live[i].Allowed {
			t.Fatalf("request %d at %v: limited is %v, live %v (%s by %s)\n%+v", i, requests[i].at, limited, !live[i].Allowed, live[i].Reason, live[i].RuleID, s.entry.req)
		}
		reasons[string(live[i].Reason)]++
		last := ""
		for b := range live[i].Bands() {
			if id := b.Rule.ID; b.Status != store.OK && id != last {
				rejected[id]++
				last = id
			}
		}
		switch live[i].Reason {
		case fluxgate.ReasonDenied, fluxgate.ReasonMissingIdentity:
			rejected[live[i].RuleID]++
		}
		i++
		if err := s.next(); err != nil {
			t.Fatal(err)
		}
	}
	if i != n {
		t.Errorf("%d requests, want %d", i, n)
	}
	for id, c := range r.rules {
		if c.Limited != rejected[id] {
			t.Errorf("rule %s limits %d, live %d", id, c.Limited, rejected[id])
		}
		if c.Action != string(rules.ActionAllow) && c.Limited == 0 {
			t.Errorf("rule %s limits nothing: the test shows nothing about it", id)
		}
	}
	if len(reasons) < 5 {
		t.Errorf("only the reasons %v", reasons)
	}
}

// The numbers of a comparison add up, for the rule sets and for each rule.
func TestRun_DifferenceAddsUp(t *testing.T) {
	proposed := manyRules(t, 1)
	var list []rules.Rule
	for r := range manyRules(t, 2).Rules() {
		switch r.ID {
		case "keys":
			r.ID = "old-keys"
		case "per-user":
			r.Bands[0].Capacity = 5
		}
		list = append(list, r)
	}
	current := ruleSet(t, list...)
	log := jsonLog(t, randomRequests(20_000, time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)))
	r := replayed(t, Config{Proposed: proposed, Current: current, Fields: randomMapping}, log)
	alone := replayed(t, Config{Proposed: proposed, Fields: randomMapping}, log)
	was := replayed(t, Config{Proposed: current, Fields: randomMapping}, log)

	d := r.Difference
	if d.Newly == 0 || d.NoLonger == 0 || d.Both == 0 || d.Neither == 0 {
		t.Errorf("the test shows nothing: %+v", d)
	}
	if d.Newly+d.NoLonger+d.Both+d.Neither != r.Requests || r.Requests != 20_000 {
		t.Errorf("%+v of %d requests", d, r.Requests)
	}
	if d.Newly+d.Both != alone.Limited || d.NoLonger+d.Both != was.Limited {
		t.Errorf("%+v: %d and %d are limited", d, alone.Limited, was.Limited)
	}
	var newly, noLonger int64 // by the rules that limit most
	for _, rule := range r.Rules {
		if same := ruleOf(alone, rule.Rule); rule.Requests != same.Requests || rule.Limited != same.Limited || rule.Newly > rule.Limited ||
			same.Newly != 0 || same.NoLonger != 0 {
			t.Errorf("rule %s: %+v, alone %+v", rule.Rule, rule, same)
		}
		if same := ruleOf(was, rule.Rule); rule.NoLonger > same.Limited {
			t.Errorf("rule %s: %+v, of the current rules %+v", rule.Rule, rule, same)
		}
		if !rule.Shadow {
			newly += rule.Newly
			noLonger += rule.NoLonger
		}
	}
	// A request is limited by one rule at least, or its path is refused by both.
	if newly < d.Newly || noLonger < d.NoLonger {
		t.Errorf("%d newly and %d no longer limited by rules: %+v", newly, noLonger, d)
	}
	last := r.Rules[len(r.Rules)-1]
	if !last.Removed || last.Rule != "old-keys" || last.Requests != 0 {
		t.Errorf("the last rule is %+v", last)
	}
}

// ruleOf is a rule of a report, without numbers if the report does not have it.
func ruleOf(r *Report, id string) *Rule {
	if i := slices.IndexFunc(r.Rules, func(rule *Rule) bool { return rule.Rule == id }); i >= 0 {
		return r.Rules[i]
	}
	return &Rule{}
}

// With one rule on each side, the numbers of the rules are those of all requests.
func TestRun_DifferenceOfOneRule(t *testing.T) {
	byUser := ruleSet(t, rules.Rule{ID: "per-user", Scope: rules.ScopeUser, Bands: []rules.Band{rules.PerHour(100)}})
	byPath := ruleSet(t, rules.Rule{ID: "per-path", Scope: rules.ScopeComposite, KeyFields: []string{"path", "method"}, Bands: []rules.Band{rules.PerHour(300)}})
	log := jsonLog(t, slices.DeleteFunc(randomRequests(10_000, time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)), func(r randomRequest) bool { return r.req.Path == "/bad#path" }))
	r := replayed(t, Config{Proposed: byUser, Current: byPath, Fields: randomMapping}, log)
	d, p, now := r.Difference, r.Rules[0], r.Rules[1]
	if d.Newly == 0 || d.NoLonger == 0 || d.Both == 0 {
		t.Errorf("the test shows nothing: %+v", d)
	}
	if p.Newly != d.Newly || p.Limited != d.Newly+d.Both || now.NoLonger != d.NoLonger || r.Limited != p.Limited {
		t.Errorf("%+v\n%+v\n%+v", d, p, now)
	}
}

// Quotas have the months of the log, not those of today.
func TestRun_QuotaMonths(t *testing.T) {
	set := ruleSet(t, rules.Rule{ID: "plan", Scope: rules.ScopeIP, Bands: []rules.Band{{Kind: rules.Quota, Capacity: 1, Period: "month", Timezone: "America/New_York"}}})
	text := ""
	for month := time.January; month <= time.December; month++ {
		first := time.Date(2023, month, 1, 5, 0, 0, 0, time.UTC)
		for _, at := range []time.Time{first.Add(-2 * time.Hour), first, first.Add(24 * time.Hour)} {
			text += fmt.Sprintf(`{"time":%d,"ip":"192.0.2.1","path":"/"}`+"\n", at.Unix())
		}
	}
	// The first line is the only one of its December. In every month the first passes.
	if r := replayed(t, Config{Proposed: set}, text); r.Limited != 36-13 {
		t.Errorf("%d of 36 are limited, want 23", r.Limited)
	}
}

// perIP limits every address to a number of requests an hour.
func perIP(t testing.TB, n int64) *rules.Set {
	t.Helper()
	return ruleSet(t, rules.Rule{ID: "per-ip", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerHour(n)}})
}

// line is of the combined format.
func line(ip string, second int, path string) string {
	at := time.Date(2026, 11, 16, 15, 0, second, 0, time.UTC)
	return fmt.Sprintf("%s - - [%s] \"GET %s HTTP/1.1\" 200 1 \"-\" \"-\"\n", ip, at.Format("02/Jan/2006:15:04:05 -0700"), path)
}

// Several logs are read in the order of their times, whatever the order of the files, and
// each has its own format.
func TestRun_SeveralLogs(t *testing.T) {
	old, recent := "", ""
	for i := range 40 {
		old += line("192.0.2.1", i, "/old")
		recent += line("192.0.2.1", 3600+i, "/new")
	}
	object := `{"time":"2026-11-16T15:30:00.5Z","path":"/","ip":"192.0.2.1"}` + "\n"
	r := replayed(t, Config{Proposed: perIP(t, 60)}, recent, old+line("192.0.2.2", 41, "/"), object+`{"path":"/"}`)
	// 40 of 60 are taken in the first minute and are back after 40 minutes.
	if r.Requests != 82 || r.Limited != 0 {
		t.Errorf("%d requests, %d limited", r.Requests, r.Limited)
	}
	for i, want := range []Log{
		{Name: "log-0", Lines: 40, Requests: 40}, {Name: "log-1", Lines: 41, Requests: 41},
		{Name: "log-2", Lines: 2, Requests: 1, Skipped: 1, FirstSkipped: &SkippedLine{2, errTime.Error(), ""}},
	} {
		if !reflect.DeepEqual(r.Logs[i], want) {
			t.Errorf("%+v\nwant\n%+v", r.Logs[i], want)
		}
	}
	if r.From.Format(time.DateTime) != "2026-11-16 15:00:00" || r.To.Format(time.DateTime) != "2026-11-16 16:00:39" {
		t.Errorf("from %v to %v", r.From, r.To)
	}
}

// Logs of several servers give the same report as one log of all of them.
func TestRun_InterleavedLogs(t *testing.T) {
	var logs [3]string
	all := ""
	for i := range 900 {
		l := line(fmt.Sprint("192.0.2.", i%7), i, "/")
		logs[i*i%3] += l
		all += l
	}
	got, want := replayed(t, Config{Proposed: perIP(t, 60)}, logs[:]...), replayed(t, Config{Proposed: perIP(t, 60)}, all)
	got.Logs, want.Logs = nil, nil
	gotJSON, _ := json.Marshal(got)
	wantJSON, _ := json.Marshal(want)
	if string(gotJSON) != string(wantJSON) || want.Limited == 0 {
		t.Errorf("%s\nwant\n%s", gotJSON, wantJSON)
	}
}

// Times that step back are counted, and give no tokens back.
func TestRun_TimesStepBack(t *testing.T) {
	text := ""
	for range 10 { // each step forward would be a token
		text += line("192.0.2.1", 120, "/") + line("192.0.2.1", 60, "/")
	}
	r := replayed(t, Config{Proposed: perIP(t, 60)}, strings.Repeat(text, 4))
	if r.Limited != 20 {
		t.Errorf("%d of 80 are limited, want 20", r.Limited)
	}
	if n := r.Logs[0].OutOfOrder; n != 40 {
		t.Errorf("%d lines are out of order, want 40", n)
	}
}

// Hostile lines are counted and shown as text, never as something else.
func TestRun_HostileLines(t *testing.T) {
	const script = `<script>alert(1)</script>`
	giant := strings.Repeat("x", 3*4*maxLine)
	text := script + "\n" + giant + "\n" + line("192.0.2.1", 1, "/ok") + "\x00\x00\n\n" + strings.Repeat("y", maxLine+1) + "\r\n" +
		line("192.0.2.1", 2, "/"+script) + "\xff\xfe\xfd\n" + strings.Replace(line("192.0.2.1", 3, "/"), "- - [", "- "+script+"\x1b[31m\xff [", 1) + giant
	set := ruleSet(t, rules.Rule{ID: "by", Scope: rules.ScopeComposite, KeyFields: []string{"userId", "path"}, Bands: []rules.Band{{Capacity: 1, Refill: time.Hour}}})
	r := replayed(t, Config{Proposed: set}, text+"\n"+strings.Replace(line("192.0.2.1", 3, "/"), "- - [", "- "+script+"\x1b[31m\xff [", 1)+"cut off")
	l := r.Logs[0]
	// script, giant, ok, NUL, empty, long, path, bad UTF-8, user, giant, user, cut off
	if l.Lines != 12 || l.Requests != 4 || l.Skipped != 8 {
		t.Errorf("%+v", l)
	}
	if first := l.FirstSkipped; first == nil || first.Line != 1 || first.Text != script {
		t.Errorf("first skipped: %+v", first)
	}
	if rule := r.Rules[0]; rule.Requests != 4 || rule.Limited != 1 {
		t.Errorf("%+v", rule)
	}
}

// Secrets of a line that cannot be parsed are in no output.
func TestRun_HidesSecrets(t *testing.T) {
	const secret = "hunter-2-secret"
	set := ruleSet(t,
		rules.Rule{ID: "keys", Scope: rules.ScopeAPIKey, Bands: []rules.Band{{Capacity: 1, Refill: time.Hour}}},
		rules.Rule{ID: "headers", Scope: rules.ScopeComposite, KeyFields: []string{"header:Authorization", "attr:session_id", "apiKey"}, Bands: []rules.Band{{Capacity: 1, Refill: time.Hour}}},
	)
	text := strings.Repeat(`{"time":1794841200,"path":"/?key=`+secret+`","k":"`+secret+`"}`+"\n", 3) + `{"k":"` + secret + `"}`
	mapped := replayed(t, Config{Proposed: set, Fields: []string{"apiKey=k", "header.Authorization=k", "attr.session_id=k"}}, text)
	plain := replayed(t, Config{Proposed: perIP(t, 1)}, strings.Repeat(line("x", 1, "/a?key="+secret), 2))
	for _, r := range []*Report{mapped, plain} {
		asJSON, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(asJSON), secret) {
			t.Errorf("a secret is in\n%s", asJSON)
		}
	}
	if rule := mapped.Rules[1]; rule.Requests != 3 || rule.Limited != 2 || mapped.Logs[0].Skipped != 1 {
		t.Errorf("%+v, %+v", rule, mapped.Logs[0])
	}
	if first := plain.Logs[0].FirstSkipped; first.Text != `x - - [16/Nov/2026:15:00:01 +0000] "GET /a?… HTTP/1.1" 200 1 "-" "-"` {
		t.Errorf("first skipped: %+v", first)
	}
}

// Slots limit nothing, because a log does not say how long requests ran.
func TestRun_Concurrency(t *testing.T) {
	set := ruleSet(t, rules.Rule{ID: "r", Bands: []rules.Band{{Kind: rules.Concurrency, Capacity: 1, Hold: time.Hour}}})
	r := replayed(t, Config{Proposed: set}, line("192.0.2.1", 1, "/")+line("192.0.2.1", 2, "/"))
	if r.Limited != 0 {
		t.Errorf("%d are limited by the number of concurrent requests", r.Limited)
	}
}
