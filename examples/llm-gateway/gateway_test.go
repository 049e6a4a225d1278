package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

const (
	streamed = `,"stream":true,"stream_options":{"include_usage":true}`
	reported = `{"prompt_tokens":50,"completion_tokens":20,"prompt_tokens_details":{"cached_tokens":10},"completion_tokens_details":{"reasoning_tokens":5}}`
	// reportedUSD is what the reported usage costs.
	reportedTokens, reportedUSD = 70, 40 + 5 + 15*4 + 5*5
)

// A request reserves its estimate and is settled by the usage that the model reports,
// in a stream or not.
func TestGateway_SettlesByUsage(t *testing.T) {
	during := make(chan map[string]int64, 1)
	var g *gate
	g = newGate(t, func(x *exchange) {
		during <- g.left()
		if strings.Contains(x.text, `"stream":true`) {
			x.stream("Hello", " world", `{"choices":[],"usage":`+reported+`}`, "[DONE]")
			return
		}
		x.json(http.StatusOK, `{"choices":[{"message":{"content":"Hello world"}}],"usage":`+reported+`}`)
	})
	for i, fields := range []string{"", streamed} {
		n := int64(i)
		got := g.get(request(200, `,"max_tokens":30`+fields))
		if got.status != http.StatusOK || !strings.Contains(got.text, "Hello") {
			t.Fatalf("%d %s", got.status, got.text)
		}
		// 200 tokens of the prompt, and 30 of the answer at the price of reasoning.
		left := <-during
		if left["requests"] != 9-n || left["parallel"] != 1 || left["tokens"] != 10_000-230-n*reportedTokens || left["usd"] != 100_000-200-150-n*reportedUSD {
			t.Errorf("%q: %v left during the request", fields, left)
		}
		for name, want := range map[string]string{
			"x-ratelimit-limit-requests": "10", "x-ratelimit-remaining-requests": fmt.Sprint(9 - n), "x-ratelimit-reset-requests": []string{"6m0s", "12m0s"}[i],
			"x-ratelimit-limit-tokens": "10000", "x-ratelimit-remaining-tokens": fmt.Sprint(10_000 - 230 - n*reportedTokens), "x-ratelimit-reset-tokens": []string{"1m22.8s", "1m48s"}[i],
		} {
			if value := got.header.Get(name); value != want {
				t.Errorf("%q: %s is %q, want %q", fields, name, value, want)
			}
		}
		g.wantUsed("settled", n+1, (n+1)*reportedTokens, (n+1)*reportedUSD)
	}
}

// Requests, tokens and money are limited in one decision, all or nothing.
func TestGateway_LimitsAllMeasures(t *testing.T) {
	for short, retryAfter := range map[string]string{"requests": "360", "tokens": "108", "usd": "26"} {
		g := newGate(t, func(x *exchange) { x.json(http.StatusOK, `{"usage":`+reported+`}`) })
		drain := fluxgate.Request{Attributes: map[string]string{"team": "red"}, Costs: map[string]int64{"tokens": 1, "usd": 1}}
		if short == "requests" {
			drain.Cost = budgets[short]
		} else {
			drain.Costs[short] = budgets[short]
		}
		d, err := g.engine.Check(t.Context(), &drain)
		if err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		if _, err := g.engine.Settle(t.Context(), d.Receipt(), max(1, drain.Cost)); err != nil {
			t.Fatal(err)
		}
		before := g.left()
		got := g.get(request(200, ""))
		g.wantError(got, http.StatusTooManyRequests, "rate_limit_exceeded")
		if !strings.Contains(got.text, short+"."+short+": 0 of ") || got.header.Get("Retry-After") != retryAfter {
			t.Errorf("no %s left: %v %s", short, got.header, got.text)
		}
		if left := got.header.Get("x-ratelimit-remaining-tokens"); left != fmt.Sprint(before["tokens"]) {
			t.Errorf("no %s left: x-ratelimit-remaining-tokens is %s", short, left)
		}
		if after := g.left(); fmt.Sprint(after) != fmt.Sprint(before) || g.calls.Load() != 0 {
			t.Errorf("no %s left: %v, was %v; %d calls", short, after, before, g.calls.Load())
		}
	}
}

// Of several maxima the largest is reserved, for each choice.
func TestGateway_ReservesTheLargestMaximum(t *testing.T) {
	during := make(chan map[string]int64, 1)
	var g *gate
	g = newGate(t, func(x *exchange) {
		during <- g.left()
		x.json(http.StatusBadRequest, `{}`)
	})
	for fields, want := range map[string]int64{
		`,"max_tokens":30,"max_completion_tokens":70`: 70, `,"max_tokens":70,"max_completion_tokens":30`: 70,
		`,"max_tokens":70,"n":3`: 210, `,"max_tokens":null,"n":null`: 100, "": 100, `,"max_completion_tokens":0`: 100,
	} {
		g.get(request(200, fields))
		if left := <-during; left["tokens"] != 10_000-200-want {
			t.Errorf("%s: %d tokens reserved, want %d", fields, 10_000-left["tokens"], 200+want)
		}
	}
}

// The estimate of a model that the tables do not list is above the limit. It does not
// refuse a first request, which takes all there is until it is settled.
func TestGateway_EstimateAboveTheLimit(t *testing.T) {
	during := make(chan map[string]int64, 1)
	var g *gate
	g = newGate(t, func(x *exchange) {
		during <- g.left()
		x.json(http.StatusOK, `{"usage":{"prompt_tokens":50,"completion_tokens":20}}`)
	})
	got := g.get(strings.Replace(request(200, ""), "small", "other", 1))
	if left := <-during; got.status != http.StatusOK || left["tokens"] != 0 || left["usd"] != 0 {
		t.Fatalf("%d %s, %v left during the request", got.status, got.text, left)
	}
	g.wantUsed("settled", 1, 70, 10*50+40*20)
}

// unavailable is a store that does not answer.
type unavailable struct{ store.Store }

func (unavailable) Take(context.Context, []store.Demand, *store.Outcome) error {
	return errors.New("no answer")
}

// While the budgets cannot be read, the answer does not say that nothing is left.
func TestGateway_StoreUnavailable(t *testing.T) {
	set := fluxgate.Must(rules.Parse([]byte(`{"id":"llm","rules":[{"id":"tokens","cost":"tokens","onFailure":"closed","bands":[{"capacity":10,"refill":"1m"}]}]}`)))
	memory := fluxgate.Must(memstore.New(memstore.Config{}))
	engine := fluxgate.Must(fluxgate.New(unavailable{memory}, fluxgate.Static(set), fluxgate.WithRuleSet("llm")))
	g := newGate(t, nil)
	server := httptest.NewServer(fluxgate.Must(newGateway(engine, g.URL, "upstream-key", "red:red-key")))
	defer server.Close()
	g.url = server.URL
	got := g.get(request(200, ""))
	g.wantError(got, http.StatusServiceUnavailable, "server_error")
	if left := got.header.Values("x-ratelimit-remaining-tokens"); len(left) > 0 {
		t.Errorf("%s tokens remain", left)
	}
}

// An answer without a usage is settled by its length. One with a usage that cannot be, or
// that is too long to read, stays charged at its estimate.
func TestGateway_UnknownUsage(t *testing.T) {
	g := newGate(t, func(x *exchange) { x.json(http.StatusOK, `{"text":"123"}`) })
	g.get(request(200, ""))
	g.wantUsed("no usage", 1, 200+14, 200+14*4)

	g = newGate(t, func(x *exchange) { x.json(http.StatusOK, `{"usage":{"prompt_tokens":-1,"completion_tokens":1}}`) })
	g.get(request(200, ""))
	g.wantUsed("negative", 1, 300, 200+100*5)

	long := `{"text":"` + strings.Repeat("x", maxAnswer) + `"}`
	g = newGate(t, func(x *exchange) { x.json(http.StatusOK, long) })
	if text := g.get(request(200, "")).text; text != long {
		t.Errorf("an answer of %d bytes has %d", len(long), len(text))
	}
	g.wantUsed("too long", 1, 300, 200+100*5)
}

// At most two requests of a team are under way. Other teams have their own limits.
func TestGateway_RequestsAtTheSameTime(t *testing.T) {
	g := newGate(t, func(x *exchange) { x.stream("Hello"); x.stall() })
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		<-g.stream(ctx, request(200, `,"stream":true`))
	}
	got := g.get(request(200, ""))
	g.wantError(got, http.StatusTooManyRequests, "rate_limit_exceeded")
	cancel()
	g.wantUsed("both have ended", 2, 2*205, 2*(200+20))
}

// The upstream gets its own key and no header of the client; the client gets none of the
// upstream's limits. No key is logged.
func TestGateway_KeysAndHeaders(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	headers := make(chan http.Header, 1)
	g := newGate(t, func(x *exchange) {
		headers <- x.request.Header
		x.Header().Set("X-Ratelimit-Remaining-Tokens", "7")
		x.Header().Set("Set-Cookie", "account=1")
		x.Header().Set("X-Request-Id", "17")
		x.json(http.StatusOK, `{}`)
	})
	send := func(method, path string, header http.Header) reply {
		req, err := http.NewRequestWithContext(t.Context(), method, g.url+path, strings.NewReader(request(200, "")))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return reply{status: res.StatusCode, header: res.Header}
	}
	first := send(http.MethodPost, path+"?api-version=1", http.Header{"Authorization": {"Bearer blue-key"}, "Openai-Project": {"other"}, "Accept-Encoding": {"gzip"}, "Cookie": {"a=b"}})
	if got := first.header; first.status != http.StatusOK || got.Get("Set-Cookie") != "" || got.Get("X-Request-Id") != "17" || len(got.Values("X-Ratelimit-Remaining-Tokens")) != 1 || got.Get("X-Ratelimit-Remaining-Tokens") != "9700" {
		t.Errorf("%d %v", first.status, got)
	}
	got := <-headers
	if got.Get("Authorization") != "Bearer upstream-key" || got.Get("Openai-Project")+got.Get("Cookie") != "" || got.Get("Accept-Encoding") != "identity" {
		t.Errorf("the upstream got %v", got)
	}
	for name, c := range map[string]struct {
		method, path string
		keys         []string
		want         int
	}{
		"no key":            {http.MethodPost, path, nil, http.StatusUnauthorized},
		"an unknown key":    {http.MethodPost, path, []string{"Bearer other-key"}, http.StatusUnauthorized},
		"two keys":          {http.MethodPost, path, []string{"Bearer red-key", "Bearer blue-key"}, http.StatusUnauthorized},
		"another path":      {http.MethodPost, "/v1/embeddings", []string{"Bearer red-key"}, http.StatusNotFound},
		"another method":    {http.MethodGet, path, []string{"Bearer red-key"}, http.StatusNotFound},
		"an ambiguous path": {http.MethodPost, "/v1/models/..%2fchat/completions", []string{"Bearer red-key"}, http.StatusNotFound},
	} {
		if got := send(c.method, c.path, http.Header{"Authorization": c.keys}); got.status != c.want {
			t.Errorf("%s: %d, want %d", name, got.status, c.want)
		}
	}
	g.Close() // the upstream
	send(http.MethodPost, path, http.Header{"Authorization": {"Bearer red-key"}})
	if text := logged.String(); !strings.Contains(text, "upstream: ") || strings.Contains(text, "-key") {
		t.Errorf("logged %q", text)
	}
}

// A gateway that no client could use, or without an upstream, does not start. The error
// shows no key.
func TestNewGateway_Invalid(t *testing.T) {
	g := newGate(t, nil)
	for _, c := range []struct{ upstream, keys string }{
		{"http://127.0.0.1:1", ""}, {"http://127.0.0.1:1", "secret"}, {"http://127.0.0.1:1", "red:"}, {"http://127.0.0.1:1", "red:a :secret"},
		{"127.0.0.1:1", "red:secret"}, {"", "red:secret"},
	} {
		if _, err := newGateway(g.engine, c.upstream, "", c.keys); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The headers are those of the band with the least left, and not of rules that are only
// measured.
func TestSetLimitHeaders_SmallestShare(t *testing.T) {
	hundred, thousand := rules.PerHour(100), rules.PerHour(1_000)
	thousand.Label = "second"
	set := fluxgate.Must(rules.NewSet("llm",
		rules.Rule{ID: "a", Cost: "tokens", Bands: []rules.Band{thousand, hundred}},
		rules.Rule{ID: "b", Cost: "tokens", Bands: []rules.Band{thousand}},
		rules.Rule{ID: "c", Cost: "tokens", Mode: rules.ModeShadow, Bands: []rules.Band{rules.PerHour(20)}},
	))
	engine := fluxgate.Must(fluxgate.New(fluxgate.Must(memstore.New(memstore.Config{})), fluxgate.Static(set)))
	d, err := engine.Check(t.Context(), &fluxgate.Request{Costs: map[string]int64{"tokens": 10}})
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	setLimitHeaders(h, &d)
	if len(h) != 3 || h.Get("x-ratelimit-limit-tokens") != "100" || h.Get("x-ratelimit-remaining-tokens") != "90" || h.Get("x-ratelimit-reset-tokens") != "6m0s" {
		t.Errorf("%v", h)
	}
}
