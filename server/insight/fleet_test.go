package insight_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/insight"
)

// Counts of callers are the sum of the servers that list them: at least that of the server
// that is asked, and at most the truth.
func TestFleet_CallersOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, store := new(reports), memory(t)
		sets := []*rules.Set{set(t, "api", perUser("r", 1_000_000))}
		var servers []*node
		for i := range 5 {
			servers = append(servers, start(t, store, insight.Config{Fleet: shared.as(fmt.Sprint("s", i))}, sets))
		}
		truth, own := map[string]uint64{}, map[string]uint64{}
		for i, n := range servers {
			for user := range 60 {
				times := 1 + (user*(i+3)*7)%41
				name := fmt.Sprint("user u", user)
				truth[name] += uint64(times)
				if i == 0 {
					own[name] = uint64(times)
				}
				n.check(t, times, fluxgate.Request{UserID: fmt.Sprint("u", user)})
			}
		}
		time.Sleep(5 * time.Second)
		found := servers[0].callers(t, insight.CallersQuery{Outcome: admin.CallersAllowed}, everything)
		if len(found.Callers) != 20 {
			t.Fatalf("%d callers", len(found.Callers))
		}
		others := false
		for _, c := range found.Callers {
			if low, high := own[c.Identity], truth[c.Identity]; c.Count < low || c.Count > high {
				t.Errorf("%s made %d requests, %d of them here; counted %d", c.Identity, high, low, c.Count)
			}
			others = others || c.Count > own[c.Identity]
		}
		if !others {
			t.Error("no other server counts")
		}
	})
}

// Callers of a shadow rule are marked, those of other rules are not, on every server.
func TestFleet_CallersOfShadowRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := new(reports)
		measured := perUser("measured", 1)
		measured.Mode = rules.ModeShadow
		sets := []*rules.Set{set(t, "api", measured, perUser("limits", 2))}
		saw := start(t, memory(t), insight.Config{Fleet: shared.as("a")}, sets)
		idle := start(t, memory(t), insight.Config{Fleet: shared.as("b")}, sets)
		saw.check(t, 5, fluxgate.Request{UserID: "alice"})
		for _, wait := range []time.Duration{5 * time.Second, 30 * time.Second} { // then the rules are no longer among the busiest
			time.Sleep(wait)
			for name, n := range map[string]*node{"that saw them": saw, "that did not": idle} {
				found := map[string]bool{}
				for _, c := range n.callers(t, insight.CallersQuery{}, everything).Callers {
					found[c.Rule] = c.Shadow
				}
				if want := map[string]bool{"measured": true, "limits": false}; !maps.Equal(found, want) {
					t.Errorf("the server %s shows %v, want %v", name, found, want)
				}
			}
		}
	})
}

// Servers with other revisions are shown.
func TestFleet_Differing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := new(reports)
		sets := []*rules.Set{set(t, "api", perUser("r", 5))}
		revisions := func(api, other int64) func() map[string]int64 {
			return func() map[string]int64 { return map[string]int64{"api": api, "same": 3, "other": other} }
		}
		one := start(t, memory(t), insight.Config{Fleet: shared.as("a"), Name: "one", Revisions: revisions(12, 1)}, sets)
		start(t, memory(t), insight.Config{Fleet: shared.as("b"), Name: "two", Version: "v2", Revisions: revisions(13, 2), Draining: func() bool { return true }}, sets)
		start(t, memory(t), insight.Config{Fleet: shared.as("c"), Name: "three", Revisions: revisions(12, 1)}, sets)
		time.Sleep(3 * time.Second)
		fleet := one.Fleet(t.Context(), insight.View{RuleSet: func(id string) bool { return id != "other" }, Identities: func(string) bool { return false }})
		if got, want := fmt.Sprint(fleet.Differing), "[{api [12 13]}]"; got != want {
			t.Errorf("differing: %s, want %s", got, want)
		}
		var names []string
		for _, s := range fleet.Servers {
			names = append(names, fmt.Sprint(s.Name, s.ID, s.Self, s.Draining, s.Version))
		}
		if got, want := strings.Join(names, " "), "oneatrue false threecfalse false twobfalse truev2"; got != want {
			t.Errorf("servers: %s, want %s", got, want)
		}
	})
}

// While the fleet is away a server shows its own numbers and says so, and it says when
// it cannot write.
func TestFleet_Away(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(testenv.LogBuffer)
		n := start(t, memory(t), insight.Config{Fleet: (&reports{fail: errors.New("away")}).as("a"), Logger: log.Logger()}, []*rules.Set{set(t, "api", perUser("r", 1))})
		n.check(t, 3, fluxgate.Request{UserID: "u"})
		time.Sleep(5*time.Second + 100*time.Millisecond)
		live := n.live(t, insight.LiveQuery{}, everything)
		if got, _ := sums(&live.Series, 2); got[1] != 2 || !strings.Contains(live.Problem, "Redis does not answer") || live.Servers != 1 {
			t.Errorf("%v, %q", got, live.Problem)
		}
		if lines := log.Lines("cannot write the report"); len(lines) != 1 {
			t.Errorf("logged %q", lines)
		}
	})
}

// refusal is an error reply of Redis.
type refusal struct{ error }

func (refusal) RedisError() {}

// What Redis refuses is logged and shown.
func TestFleet_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(testenv.LogBuffer)
		shared := &reports{fail: refusal{errors.New("NOPERM no permission")}}
		n := start(t, memory(t), insight.Config{Fleet: shared.as("a"), Logger: log.Logger()}, []*rules.Set{set(t, "api")})
		time.Sleep(time.Second)
		if live := n.live(t, insight.LiveQuery{}, everything); !strings.Contains(live.Problem, "Redis does not return") {
			t.Errorf("%q", live.Problem)
		}
		if lines := log.Lines("NOPERM"); len(lines) != 1 {
			t.Errorf("logged %q", lines)
		}
	})
}

// A caller without the role sees no identity, and a tenant its own rule sets only.
func TestFleet_Views(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, store := new(reports), memory(t)
		sets := []*rules.Set{set(t, "api", perUser("r", 1)), set(t, "mine", perUser("r", 1))}
		one, second := start(t, store, insight.Config{Fleet: shared.as("a")}, sets), start(t, store, insight.Config{Fleet: shared.as("b")}, sets)
		for _, n := range []*node{one, second} {
			n.check(t, 3, fluxgate.Request{UserID: "alice"})
			n.check(t, 2, fluxgate.Request{UserID: "bob", RuleSet: "mine"})
		}
		time.Sleep(5 * time.Second)
		mine := func(id string) bool { return id == "mine" }
		tenant := insight.View{RuleSet: mine, Identities: mine}
		reader := insight.View{All: true, RuleSet: everything.RuleSet, Identities: func(string) bool { return false }}
		for name, c := range map[string]struct {
			view insight.View
			want string
		}{
			"everything": {everything, "api r user alice 5; mine r user bob 3; "},
			"reader":     {reader, "api r  5; mine r  3; "},
			"tenant":     {tenant, "mine r user bob 3; "},
		} {
			got := ""
			for _, of := range one.callers(t, insight.CallersQuery{}, c.view).Callers {
				got += fmt.Sprintf("%s %s %s %d; ", of.RuleSet, of.Rule, of.Identity, of.Count)
			}
			if got != c.want {
				t.Errorf("%s sees %q, want %q", name, got, c.want)
			}
			live := one.live(t, insight.LiveQuery{}, c.view)
			if n, _ := sums(&live.Series, 2); name == "tenant" && (n[0]+n[1] != 4 || len(live.Rules) != 1) || name != "tenant" && n[0]+n[1] != 10 {
				t.Errorf("%s sees %v and %v", name, n, live.Rules)
			}
			if live = one.live(t, insight.LiveQuery{RuleSet: "api"}, c.view); name == "tenant" {
				if n, _ := sums(&live.Series, 2); n != [6]float64{} || len(live.Rules) > 0 {
					t.Errorf("a tenant sees %v of another rule set", n)
				}
			}
		}
		for id, text := range shared.by {
			if strings.Contains(string(text), "alice") || strings.Contains(string(text), "bob") || !json.Valid(text) {
				t.Errorf("%s reports %s", id, text)
			}
		}
	})
}

// A tenant sees its callers however busy those of others are, and the counts do not show
// how busy they are.
func TestFleet_BusyNeighbour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, store := new(reports), memory(t)
		sets := []*rules.Set{set(t, "mine", perUser("r", 1))}
		for i := range 3 {
			sets = append(sets, set(t, fmt.Sprint("busy-", i), perUser("r", 1)))
		}
		one, second := start(t, store, insight.Config{Fleet: shared.as("a")}, sets), start(t, store, insight.Config{Fleet: shared.as("b")}, sets)
		mine := func(id string) bool { return id == "mine" }
		tenant := insight.View{RuleSet: mine, Identities: mine}
		seen := func() string {
			time.Sleep(5 * time.Second)
			synctest.Wait()
			all := ""
			for _, c := range one.callers(t, insight.CallersQuery{}, tenant).Callers {
				all += fmt.Sprintf("%s %d; ", c.Identity, c.Count)
			}
			return all
		}
		for _, n := range []*node{one, second} {
			n.check(t, 3, fluxgate.Request{UserID: "bob"})
		}
		want := "user bob 5; "
		if got := seen(); got != want {
			t.Fatalf("alone it sees %q, want %q", got, want)
		}
		for user := range 400 {
			for i := range 3 {
				one.check(t, 7, fluxgate.Request{RuleSet: fmt.Sprint("busy-", i), UserID: fmt.Sprint("u", user)})
			}
		}
		if got := seen(); got != want {
			t.Errorf("beside busy rule sets on this server it sees %q, want %q", got, want)
		}
		for user := range 10 {
			second.check(t, 1_000, fluxgate.Request{RuleSet: "busy-0", UserID: fmt.Sprint("u", user)})
		}
		if got := seen(); got != want {
			t.Errorf("beside some busy callers on the other server it sees %q, want %q", got, want)
		}
		for user := range 100 {
			second.check(t, 1_000, fluxgate.Request{RuleSet: "busy-1", UserID: fmt.Sprint("u", user)})
		}
		// The other server no longer lists its caller, with 2 or 3 requests.
		if got := seen(); got != "user bob 2; " && got != "user bob 3; " {
			t.Errorf("beside busy rule sets on the other server it sees %q", got)
		}
	})
}

// The numbers of the fleet are the sum of its servers, each counted back from its report. What servers of an
// earlier version report besides is ignored.
func TestFleet_Sum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := new(reports)
		sets := []*rules.Set{set(t, "api", perUser("r", 5))}
		first := start(t, memory(t), insight.Config{Fleet: shared.as("a")}, sets)
		time.Sleep(30 * time.Second)
		second := start(t, memory(t), insight.Config{Fleet: shared.as("b")}, sets)
		for range 10 {
			first.check(t, 1, fluxgate.Request{UserID: "alice"})
			second.check(t, 2, fluxgate.Request{UserID: "bob"})
			time.Sleep(4 * time.Second)
		}
		shared.mu.Lock()
		shared.by["c"] = []byte(`{"v":1,"steps":1,"total":{"n":[[9]]},"hour":{"steps":60,"n":[[7]]}}`)
		shared.mu.Unlock()
		time.Sleep(3 * time.Second)
		for name, n := range map[string]*node{"first": first, "second": second} {
			live := n.live(t, insight.LiveQuery{}, everything)
			got, known := sums(&live.Series, live.StepSeconds)
			if got[0]+got[1] != 10+20+9 || known < 35 || known > 38 || len(live.Series.P99Ms) != 60 || live.Servers != 3 {
				t.Errorf("%s has %v in %d steps of %d s, %d servers", name, got, known, live.StepSeconds, live.Servers)
			}
		}
	})
}

// frozen is a fleet in a Redis that does not answer.
type frozen struct{ member }

func (frozen) Reports(ctx context.Context, _ int) (map[string][]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// While Redis is frozen no reader waits longer than for one read, however many there are.
func TestFleet_ReadersWhileFrozen(t *testing.T) {
	fleet := func() (insight.Fleet, error) { return frozen{member{new(reports), "a"}}, nil }
	n := start(t, memory(t), insight.Config{Fleet: fleet}, []*rules.Set{set(t, "api")})
	longest := make(chan time.Duration)
	for range 100 {
		go func() {
			var most time.Duration
			for begun := time.Now(); time.Since(begun) < 3*time.Second; {
				sent := time.Now()
				if found := n.Fleet(t.Context(), everything); found.Problem == "" {
					t.Errorf("%+v", found)
				}
				most = max(most, time.Since(sent))
				time.Sleep(10 * time.Millisecond)
			}
			longest <- most
		}()
	}
	for range 100 {
		if most := <-longest; most > 2*time.Second {
			t.Errorf("a reader waited %v for a read of a second", most)
		}
	}
}

// Every server shows the health of all. A tenant does not learn the reason: it may name
// rule sets of others.
func TestFleet_Health(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, store := new(reports), memory(t)
		sets := []*rules.Set{set(t, "api", perUser("r", 1))}
		full := func() (string, string) { return "degraded", "OOM\x1b" + strings.Repeat("x", 300) }
		one := start(t, store, insight.Config{Name: "one", Fleet: shared.as("a")}, sets)
		start(t, store, insight.Config{Name: "two", Fleet: shared.as("b"), Health: full}, sets)
		time.Sleep(3 * time.Second)
		for name, c := range map[string]struct {
			view   insight.View
			reason bool
		}{
			"everything": {everything, true},
			"tenant":     {insight.View{RuleSet: everything.RuleSet, Identities: everything.Identities}, false},
		} {
			fleet := one.Fleet(t.Context(), c.view)
			first, second := &fleet.Servers[0], &fleet.Servers[1]
			if first.Status != "" || second.Status != "degraded" || strings.HasPrefix(second.Reason, "OOM") != c.reason ||
				len(second.Reason) > 210 || strings.Contains(second.Reason, "\x1b") {
				t.Errorf("%s: %q, and %q: %q", name, first.Status, second.Status, second.Reason)
			}
		}
	})
}

// Servers report what they understand, and those of an earlier version report nothing.
func TestFleet_Understands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := new(reports)
		sets := []*rules.Set{set(t, "api", perUser("r", 1))}
		a := start(t, memory(t), insight.Config{Fleet: shared.as("a")}, sets)
		start(t, memory(t), insight.Config{Fleet: shared.as("b")}, sets)
		time.Sleep(5 * time.Second)
		for _, s := range a.Fleet(t.Context(), insight.Everything()).Servers {
			if !slices.Equal(s.Understands, rules.Understood()) {
				t.Errorf("server %s understands %q", s.ID, s.Understands)
			}
		}
	})
}
