package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// send is do with any Host, and without a content type unless headers name one.
func (r *running) send(t testing.TB, method, url, host, body string, headers ...string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// A page of another site cannot take tokens: neither by a POST from its own
// origin, nor by a name of its own that resolves to this machine. Proxies and
// probes pass on whatever their clients send.
func TestCheckListener_PageOfAnotherSite(t *testing.T) {
	r, log := startLogged(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1_000), "server.http-hosts=limits.example.com")
	for path, body := range map[string]string{
		"/v1/check": `{"userId":"u"}`, "/v1/check:batch": `{"requests":[{"userId":"u"}]}`, "/api/ratelimit/check": `{"ruleSetId":"api-limits","userId":"u"}`,
	} {
		for name, c := range map[string]struct {
			host    string
			headers []string
			want    int
		}{
			"a program":                     {want: 200},
			"localhost":                     {host: "localhost:8080", want: 200},
			"a name that is configured":     {host: "limits.example.com", want: 200},
			"a page of the same origin":     {headers: []string{"Sec-Fetch-Site", "same-origin"}, want: 200},
			"a page of another site":        {headers: []string{"Sec-Fetch-Site", "cross-site"}, want: 403},
			"a page of a sibling":           {headers: []string{"Sec-Fetch-Site", "same-site"}, want: 403},
			"another origin, old browser":   {headers: []string{"Origin", "https://evil.example"}, want: 403},
			"a name that was rebound":       {host: "evil.example:8080", headers: []string{"Sec-Fetch-Site", "same-origin"}, want: 403},
			"a name that was rebound, curl": {host: "evil.example", want: 403},
		} {
			if got := r.send(t, http.MethodPost, r.url+path, c.host, body, c.headers...); got != c.want {
				t.Errorf("%s: %s gets %d, want %d", path, name, got, c.want)
			}
		}
	}
	for path, want := range map[string]int{"/metrics": 403, "/v1/health": 403, "/healthz": 200, "/readyz": 200} {
		if got := r.send(t, http.MethodGet, r.url+path, "evil.example", ""); got != want {
			t.Errorf("%s by a name that was rebound: %d, want %d", path, got, want)
		}
	}
	asked := []string{"X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/x", "X-Forwarded-For", "192.0.2.9", "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}
	if got := r.send(t, http.MethodPost, r.url+"/v1/forward-auth", "shop.example.com", "", asked...); got != http.StatusNoContent {
		t.Errorf("a proxy that passes on what a browser sends gets %d", got)
	}
	// Of all rejected requests within a minute there is a line for the first.
	if lines := log.Lines("of a web page of another site or host"); len(lines) != 1 || !strings.Contains(lines[0], "POST /") {
		t.Errorf("the log has %q", lines)
	}
}

// Services reach a server that is not on loopback by any name.
func TestCheckListener_ServiceName(t *testing.T) {
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1_000), "server.http=0.0.0.0:0")
	_, port, _ := strings.Cut(strings.TrimPrefix(r.Addr("http"), "[::]"), ":")
	if got := r.send(t, http.MethodPost, "http://127.0.0.1:"+port+"/v1/check", "fluxgate.limits.svc:8080", `{"userId":"u"}`); got != http.StatusOK {
		t.Errorf("asked as a service: %d", got)
	}
	if got := r.send(t, http.MethodPost, "http://127.0.0.1:"+port+"/v1/check", "", `{"userId":"u"}`, "Sec-Fetch-Site", "cross-site"); got != http.StatusForbidden {
		t.Errorf("asked by a page: %d", got)
	}
}

// Where callers need tokens, those on this machine do too.
func TestAdminListener_LoopbackNeedsToken(t *testing.T) {
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1), "server.auth.tokens=[{name: all, sha256: "+hashOf("all")+", roles: [read]}]")
	for path, want := range map[string]int{"/metrics": 401, "/v1/health": 401, "/healthz": 200, "/readyz": 200} {
		if got := r.send(t, http.MethodGet, r.adminURL()+path, "", ""); got != want {
			t.Errorf("%s without a token: %d, want %d", path, got, want)
		}
		if got := r.send(t, http.MethodGet, r.adminURL()+path, "", "", "Authorization", "Bearer all"); got != http.StatusOK {
			t.Errorf("%s with a token: %d", path, got)
		}
	}
}

// A client of a proxy does not choose whether it is traced: its traceparent
// counts for nothing. Programs that check for themselves are traced with their
// own traces.
func TestForwardAuth_TraceparentDoesNotSample(t *testing.T) {
	var spans atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent collector.ExportTraceServiceRequest
		if body, err := io.ReadAll(r.Body); err != nil || proto.Unmarshal(body, &sent) != nil {
			t.Errorf("the collector cannot read what it is sent: %v", err)
		}
		for _, rs := range sent.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				spans.Add(int64(len(ss.Spans)))
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer sink.Close()
	for path, want := range map[string]int64{"/v1/forward-auth": 0, "/v1/check": 1} {
		spans.Store(0)
		r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1_000), "telemetry.otlp-endpoint="+sink.URL, "telemetry.sample-ratio=0")
		r.send(t, http.MethodPost, r.url+path, "", `{"userId":"u"}`, "X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/x", "X-Forwarded-For", "192.0.2.9",
			"Traceparent", "00-00000000000000000000000000000001-b7ad6b7169203331-01")
		r.end(t) // sends what is left
		if got := spans.Load(); got != want {
			t.Errorf("%s: %d spans of a request that says it is sampled, want %d", path, got, want)
		}
	}
}

// Callers who invent rule sets do not fill the log.
func TestLog_InventedRuleSets(t *testing.T) {
	r, log := startLogged(t, "redis.enabled=false", "rules.file="+rulesFile(t, 1_000))
	for i := range 50 {
		r.do(t, http.MethodPost, "/v1/check", fmt.Sprintf(`{"ruleSet":"invented-%d"}`, i))
	}
	if got := log.Lines("invented-"); len(got) != 1 || !strings.Contains(got[0], "level=WARN") {
		t.Errorf("%d lines name invented rule sets: %s", len(got), strings.Join(got[:min(2, len(got))], ""))
	}
}

// A decision for which no bucket was asked has no source in JSON, as in the
// metrics.
func TestDecision_SourceWithoutBand(t *testing.T) {
	r := start(t, "redis.enabled=false", "rules.file="+rulesFile(t, 5))
	d := r.do(t, http.MethodPost, "/v1/check", `{"path":"/denied"}`).object(t)
	if source, ok := d["source"]; d["reason"] != "denied" || ok {
		t.Errorf("%v has the source %v", d["reason"], source)
	}
	r.do(t, http.MethodPost, "/v1/check", `{"ruleSet":"unknown"}`)
	scrape := r.do(t, http.MethodGet, "/metrics", "").body
	for _, outcome := range []string{"denied", "no-rule-set"} {
		if !strings.Contains(scrape, `outcome="`+outcome+`"`) || strings.Contains(scrape, `outcome="`+outcome+`",rule_set="api-limits",source="store"`) {
			t.Errorf("the metrics do not say none for %s", outcome)
		}
	}
}

// Headers that the configuration names become attributes of what is asked
// through forward-auth, and no client chooses them by a second line.
func TestForwardAuth_Attributes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write(t, file, `id: api-limits
rules:
  - {id: everyone, group: tiers, bands: [{label: hourly, capacity: 5, refill: 1h}]}
  - {id: premium, group: tiers, priority: 9, when: {attributes: {tier: [premium]}}, bands: [{label: hourly, capacity: 1000, refill: 1h}]}
`)
	r := start(t, "redis.enabled=false", "rules.file="+file, "ratelimit.attributes={tier: X-Tier}")
	check := func(tiers ...string) (status int, limit string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/v1/forward-auth", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"X-Forwarded-Method": {"GET"}, "X-Forwarded-Uri": {"/x"}, "X-Forwarded-For": {"192.0.2.9"}, "X-Tier": tiers}
		res, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode, res.Header.Get("X-RateLimit-Limit")
	}
	for _, c := range []struct {
		tiers []string
		limit string
	}{{nil, "5"}, {[]string{"free"}, "5"}, {[]string{"premium"}, "1000"}} {
		if status, limit := check(c.tiers...); status != http.StatusNoContent || limit != c.limit {
			t.Errorf("%v: %d with the limit %s", c.tiers, status, limit)
		}
	}
	for _, tiers := range [][]string{{"premium", "free"}, {"free", "premium"}} {
		if status, _ := check(tiers...); status != http.StatusBadRequest {
			t.Errorf("%v: %d", tiers, status)
		}
	}
}
