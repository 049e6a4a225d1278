package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// adminAnswers is a server whose admin API answers these.
type adminAnswers struct {
	live, fleet, callers string
	// fail makes every request fail with this status.
	fail atomic.Int64
	// hold makes every request wait for its client.
	hold atomic.Bool
}

// start returns the address of the server.
func (a *adminAnswers) start(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, known := map[string]string{"/v1/live": a.live, "/v1/fleet": a.fleet, "/v1/callers": a.callers}[r.URL.Path]
		switch {
		case !known:
			http.NotFound(w, r)
		case a.hold.Load():
			<-r.Context().Done()
		case a.fail.Load() != 0:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(int(a.fail.Load()))
			fmt.Fprintf(w, `{"title": "x", "status": %d, "kind": "unauthorized", "detail": "The token has \u001b[31mexpired."}`, a.fail.Load())
		case r.URL.Path != "/v1/fleet" && r.URL.Query().Get("limit") != "20":
			http.Error(w, r.URL.String(), http.StatusTeapot)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(text))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// decode returns the answers as top gets them.
func (a *adminAnswers) decode(t *testing.T) *topAnswers {
	t.Helper()
	answers := new(topAnswers)
	for text, to := range map[string]any{a.live: &answers.Live, a.fleet: &answers.Fleet, a.callers: &answers.Callers} {
		if err := json.Unmarshal([]byte(text), to); err != nil {
			t.Fatal(err)
		}
	}
	return answers
}

// seriesOf repeats values until there are 60.
func seriesOf(values ...string) string {
	var all []string
	for i := range 60 {
		all = append(all, values[i*len(values)/60])
	}
	return "[" + strings.Join(all, ",") + "]"
}

// busyFleet is three servers during a rollout.
func busyFleet() *adminAnswers {
	return &adminAnswers{
		live: `{"scope":"fleet","servers":3,"stepSeconds":2,"end":"2026-11-16T15:00:00Z","series":{
 "allowed":` + seriesOf("null", "800", "900", "1240", "1000", "700") + `,"limited":` + seriesOf("null", "0", "0", "2", "38", "41.5") + `,
 "denied":[],"degraded":[],"waiting":[],"shadow":[],"p50Ms":[],"p99Ms":[]},
 "rules":[
 {"ruleSet":"api-limits","rule":"per-user","allowed":612.4,"limited":38.2,"denied":0,"degraded":0,"waiting":0,"shadow":0},
 {"ruleSet":"api-limits","rule":"per-address-of-the-public-catalogue","allowed":12345,"limited":3,"denied":0,"degraded":12.5,"waiting":0.02,"shadow":0},
 {"ruleSet":"llm","rule":"tokens-a-day","allowed":9.3,"limited":0,"denied":1,"degraded":0,"waiting":4,"shadow":2.5}]}`,
		fleet: `{"servers":[
 {"id":"1","name":"gw-1","version":"1.4.0","self":true,"startedAt":"2026-11-16T10:00:00Z","reportedAt":"2026-11-16T14:59:59Z","draining":false,
  "revisions":{"api-limits":13},"rates":{},"p50Ms":0.41,"p99Ms":2.1,"redis":[{"node":"10.0.0.1:6379","open":false},{"node":"10.0.0.2:6379","open":true,"since":"2026-11-16T14:58:31Z","error":"i/o timeout"}]},
 {"id":"2","name":"gw-2","version":"1.4.0","self":false,"startedAt":"2026-11-16T10:00:00Z","reportedAt":"2026-11-16T15:30:00Z","draining":false,
  "revisions":{"api-limits":13},"rates":{},"p50Ms":0.38,"p99Ms":12.6,"redis":[{"node":"10.0.0.2:6379","open":true,"since":"2026-11-16T15:28:30Z","error":"i/o timeout"}]},
 {"id":"3","name":"gw-3","version":"1.3.9","self":false,"startedAt":"2026-11-16T10:00:00Z","reportedAt":"2026-11-16T14:59:58Z","draining":true,
  "revisions":{"api-limits":12},"rates":{},"redis":[]}],
 "total":{"allowed":1033.7,"limited":41.2,"denied":1,"degraded":12.5,"waiting":4,"shadow":2.5},
 "differing":[{"ruleSet":"api-limits","revisions":[12,13]}]}`,
		callers: `{"outcome":"limited","since":"2026-11-16T14:58:25Z","callers":[
 {"ruleSet":"api-limits","rule":"per-user","key":"c030f46cc2ed9febe5c7692aacba3ee91f7c20d3a95b68e4","identity":"user alice","count":1200,"error":3,"perSecond":12.6},
 {"ruleSet":"api-limits","rule":"per-address-of-the-public-catalogue","key":"77aa1f46cc2ed9febe5c7692aacba3ee91f7c20d3a95b68e","count":410,"error":0,"perSecond":4.3},
 {"ruleSet":"llm","rule":"tokens-a-day","key":"0b6c1f46cc2ed9febe5c7692aacba3ee91f7c20d3a95b68e","identity":"user bob","shadow":true,"count":96,"error":0,"perSecond":1}]}`,
	}
}
