package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

const million = 1_000_000

// tables count a token of the prompt as one and one of the answer as four millionths
// of a dollar, or half of one and five if it is cached or reasoning.
var tables = rules.CostTables{
	"usd": {
		"small": {Input: million, CachedInput: million / 2, Output: 4 * million, Reasoning: 5 * million, MaxOutputTokens: 100},
		"*":     {Input: 10 * million, CachedInput: 10 * million, Output: 40 * million, Reasoning: 40 * million, MaxOutputTokens: 20_000},
	},
	"tokens": {
		"small": {Input: million, CachedInput: million, Output: million, Reasoning: million, MaxOutputTokens: 100},
		"*":     {Input: million, CachedInput: million, Output: million, Reasoning: million, MaxOutputTokens: 20_000},
	},
}

// budgets are what a team has at first.
var budgets = map[string]int64{"requests": 10, "parallel": 2, "tokens": 10_000, "usd": 100_000}

// model is a small model server.
type model struct {
	*httptest.Server
	// answer is how it answers, in goroutines of the server.
	answer func(x *exchange)
	calls  atomic.Int64
}

// exchange is one request to the model server.
type exchange struct {
	http.ResponseWriter
	request *http.Request
	text    string // the body
}

func newModel(t *testing.T, answer func(x *exchange)) *model {
	m := &model{answer: answer}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		m.calls.Add(1)
		m.answer(&exchange{w, r, string(body)})
	}))
	t.Cleanup(m.Close)
	return m
}

// stream sends events at once, each a piece of text or JSON.
func (x *exchange) stream(events ...string) {
	x.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_ = http.NewResponseController(x.ResponseWriter).Flush() // without events it begins too
	for _, event := range events {
		if !strings.HasPrefix(event, "{") && !strings.HasPrefix(event, "[") {
			event = fmt.Sprintf(`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":%q}}],"usage":null}`, event)
		}
		_, _ = fmt.Fprintf(x, "data: %s\n\n", event)
		_ = http.NewResponseController(x.ResponseWriter).Flush()
	}
}

// stall waits until the gateway has gone.
func (x *exchange) stall() { <-x.request.Context().Done() }

// breakOff ends the connection in the middle of the answer.
func (x *exchange) breakOff() { panic(http.ErrAbortHandler) }

// json answers without a stream.
func (x *exchange) json(status int, body string) {
	x.Header().Set("Content-Type", "application/json")
	x.WriteHeader(status)
	_, _ = io.WriteString(x, body)
}

// gate is a gateway in front of a model server.
type gate struct {
	*testing.T
	*model
	engine   *fluxgate.Engine
	url      string
	underWay atomic.Int64 // requests that the gateway has not ended
}

func newGate(t *testing.T, answer func(x *exchange)) *gate {
	t.Helper()
	var list []rules.Rule
	for _, measure := range []string{"requests", "tokens", "usd"} {
		list = append(list, rules.Rule{
			ID: measure, Cost: measure, Scope: rules.ScopeCustom, KeyFields: []string{"attr:team"},
			Bands: []rules.Band{{Label: measure, Capacity: budgets[measure], Refill: time.Hour}},
		})
	}
	list[0].Cost = "" // the same
	list[0].Bands = append(list[0].Bands, rules.Band{Label: "parallel", Kind: rules.Concurrency, Capacity: budgets["parallel"], Hold: time.Minute})
	set := fluxgate.Must(fluxgate.Must(rules.NewSet("llm", list...)).WithCostTables(tables))
	now := time.Now() // which does not pass: nothing is refilled
	store := fluxgate.Must(memstore.New(memstore.Config{Clock: func() time.Time { return now }}))
	g := &gate{T: t, model: newModel(t, answer), engine: fluxgate.Must(fluxgate.New(store, fluxgate.Static(set)))}
	gateway, err := newGateway(g.engine, g.URL, "upstream-key", "red:red-key blue:blue-key")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.underWay.Add(1)
		defer g.underWay.Add(-1)
		gateway.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

// request is a body of so many bytes as the gateway passes it on, which are its tokens.
func request(size int, fields string) string {
	text := func(content string) string {
		return fmt.Sprintf(`{"messages":[{"content":%q,"role":"user"}],"model":"small"%s}`, content, fields)
	}
	c, err := parseChat([]byte(text("")))
	if err != nil || len(c.body) > size {
		panic(fmt.Sprint("a request of ", size, " bytes: ", err))
	}
	return text(strings.Repeat("x", size-len(c.body)))
}

// request is one of the team red.
func (g *gate) request(ctx context.Context, body string) *http.Request {
	g.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+path, strings.NewReader(body))
	if err != nil {
		g.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer red-key")
	return req
}

// post sends a request of the team red. Its context ends after a minute.
func (g *gate) post(ctx context.Context, body string) *http.Response {
	g.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	g.Cleanup(cancel)
	res, err := http.DefaultClient.Do(g.request(ctx, body))
	if err != nil {
		g.Fatal(err)
	}
	return res
}

// reply is an answer of the gateway.
type reply struct {
	status int
	header http.Header
	text   string
}

// get sends a request and reads the answer.
func (g *gate) get(body string) reply {
	g.Helper()
	res := g.post(g.Context(), body)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		g.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(text)}
}

// abort sends a request, and goes away when the model has got it and so much has
// arrived: 1 for the header of the answer, and 1 for each event. With -1 it does not.
func (g *gate) abort(body string, n int64) {
	g.Helper()
	ctx, cancel := context.WithCancel(g.Context())
	req := g.request(ctx, body)
	var arrived atomic.Int64
	var client sync.WaitGroup
	client.Go(func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		defer res.Body.Close()
		arrived.Add(1)
		readEvents(res.Body, func(string) { arrived.Add(1) })
	})
	if n >= 0 {
		testenv.Eventually(g, "the answer has arrived so far", func() bool { return g.calls.Load() > 0 && arrived.Load() == n })
		cancel()
	}
	client.Wait()
	cancel()
}

// left is what the team red has left.
func (g *gate) left() map[string]int64 {
	g.Helper()
	d, err := g.engine.Check(g.Context(), &fluxgate.Request{Attributes: map[string]string{"team": "red"}, Peek: true})
	if err != nil {
		g.Fatal(err)
	}
	left := map[string]int64{}
	for b := range d.Bands() {
		left[b.Band.Label] = b.Remaining
	}
	return left
}

// wantUsed waits until no request is under way, and compares what was used.
func (g *gate) wantUsed(when string, requests, tokens, usd int64) {
	g.Helper()
	testenv.Eventually(g, when+": no request is under way", func() bool { return g.underWay.Load() == 0 })
	want := map[string]int64{
		"requests": budgets["requests"] - requests, "parallel": budgets["parallel"],
		"tokens": budgets["tokens"] - tokens, "usd": budgets["usd"] - usd,
	}
	if left := g.left(); !maps.Equal(left, want) {
		g.Errorf("%s: %v left, want %v", when, left, want)
	}
}

// wantError checks an error of OpenAI's shape.
func (g *gate) wantError(got reply, status int, kind string) {
	g.Helper()
	var body struct {
		Error struct{ Message, Type string }
	}
	if err := json.Unmarshal([]byte(got.text), &body); err != nil || body.Error.Message == "" || body.Error.Type != kind || got.status != status {
		g.Errorf("%d %s, want %d and an error of type %s", got.status, got.text, status, kind)
	}
}

// stream sends a request and returns the events of the answer.
func (g *gate) stream(ctx context.Context, body string) <-chan string {
	g.Helper()
	res := g.post(ctx, body) //nolint:bodyclose // closed when the stream ends
	found := make(chan string, 100)
	go func() {
		defer res.Body.Close()
		readEvents(res.Body, func(data string) { found <- data })
		close(found)
	}()
	return found
}

func readEvents(r io.Reader, found func(data string)) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			found(data)
		}
	}
}
