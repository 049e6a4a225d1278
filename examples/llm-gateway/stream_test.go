package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Events arrive one by one, and are passed on as they are. The client gets that with
// the usage only if it wants it.
func TestGateway_Streams(t *testing.T) {
	const usageEvent = `{"choices":[],"usage":` + reported + `}`
	for fields, want := range map[string]bool{
		`,"stream":true`: false, streamed: true, `,"stream":true,"stream_options":null`: false,
		`,"stream":true,"stream_options":{"include_usage":false}`: false,
	} {
		next := make(chan struct{})
		body := make(chan string, 1)
		g := newGate(t, func(x *exchange) {
			body <- x.text
			x.stream("Hello")
			select {
			case <-next:
			case <-x.request.Context().Done():
			}
			x.stream(" world", usageEvent, "[DONE]")
		})
		found := g.stream(t.Context(), request(200, fields))
		if sent := <-body; !strings.Contains(sent, `"stream_options":{"include_usage":true}`) {
			t.Errorf("%s: the upstream got %s", fields, sent)
		}
		if first := <-found; !strings.Contains(first, `"Hello"`) { // before the model sends more
			t.Fatalf("%s: the first event is %s", fields, first)
		}
		close(next)
		var rest []string
		for event := range found {
			rest = append(rest, event)
		}
		got := strings.Contains(strings.Join(rest, ""), usageEvent)
		if got != want || !strings.Contains(rest[0], " world") || rest[len(rest)-1] != "[DONE]" {
			t.Errorf("%s: then %q", fields, rest)
		}
		g.wantUsed(fields, 1, reportedTokens, reportedUSD)
	}
}

// A stream that does not end is settled by what was sent. What is not known stays
// charged at the estimate.
func TestGateway_AbortedStreams(t *testing.T) {
	const size, most = 200, 100
	const progress = `{"choices":[{"delta":{}}],"usage":{"prompt_tokens":50,"completion_tokens":3}}`
	const last = `{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":40}}`
	stalls := func(events ...string) func(*exchange) {
		return func(x *exchange) { x.stream(events...); x.stall() }
	}
	breaks := func(events ...string) func(*exchange) {
		return func(x *exchange) { x.stream(events...); x.breakOff() }
	}
	for name, c := range map[string]struct {
		model  string
		answer func(x *exchange)
		gone   int64 // how much arrives before the client goes away, or -1 if it does not
		// What is charged: an output of -1 is that of the estimate.
		requests, input, output int64
	}{
		"client gone":                          {"small", stalls("Hello", "é"), 3, 1, size, 7},
		"client gone, nothing sent":            {"small", stalls(), 1, 1, size, -1},
		"client gone, before the answer":       {"small", (*exchange).stall, 0, 1, size, -1},
		"client gone, usage so far":            {"small", stalls("Hello", progress), 3, 1, 50, 5},
		"client gone after the usage":          {"small", stalls("Hello, this is an answer of more than 40 bytes", last), 3, 1, 50, 40},
		"upstream broke":                       {"small", breaks("Hello"), -1, 1, size, 5},
		"upstream broke, nothing sent":         {"small", breaks(), -1, 0, 0, 0},
		"upstream reports an error at first":   {"small", breaks(`{"error":{"message":"overloaded"}}`), -1, 0, 0, 0},
		"upstream reports no usage":            {"small", func(x *exchange) { x.stream("Hello", "[DONE]") }, -1, 1, size, 5},
		"upstream reports usage with the text": {"small", func(x *exchange) { x.stream("Hello", progress, "[DONE]") }, -1, 1, 50, 3},
		"calls of tools":                       {"small", breaks(`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"find","arguments":"{}"}}]}}]}`), -1, 1, size, 6},
		"several choices":                      {"small", breaks(`{"choices":[{"delta":{"content":"abc"}},{"delta":{"refusal":"no"}}]}`), -1, 1, size, 5},
		"an event that is not JSON":            {"small", breaks("[not JSON"), -1, 1, size, 9},
		"hidden reasoning, client gone":        {"o3-mini", stalls("Hello"), 2, 1, size, -1},
		"hidden reasoning, usage is reported":  {"o3-mini", breaks("Hello", last), -1, 1, 50, 40},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, c.answer)
			body := strings.Replace(request(size+len("small")-len(c.model), streamed+`,"max_tokens":100`), "small", c.model, 1)
			g.abort(body, c.gone)
			price := tables["usd"][c.model]
			if price.Input == 0 {
				price = tables["usd"]["*"]
			}
			output, weight := c.output, price.Output
			if output < 0 { // at the price of reasoning
				output, weight = most, price.Reasoning
			}
			g.wantUsed(name, c.requests, c.input+output, (c.input*price.Input+output*weight)/million)
		})
	}
}

// What the upstream fails to answer is given back. A request that it refuses counts as
// one without tokens.
func TestGateway_UpstreamFails(t *testing.T) {
	for status, want := range map[int]struct {
		status   int
		requests int64
	}{
		http.StatusInternalServerError: {http.StatusBadGateway, 0}, http.StatusTooManyRequests: {http.StatusBadGateway, 0},
		http.StatusUnauthorized: {http.StatusBadGateway, 0}, http.StatusFound: {http.StatusBadGateway, 0},
		http.StatusBadRequest: {http.StatusBadRequest, 1}, http.StatusForbidden: {http.StatusForbidden, 1},
	} {
		g := newGate(t, func(x *exchange) { x.json(status, `{"error":{"message":"of the upstream","type":"x"}}`) })
		got := g.get(request(200, ""))
		if got.status != want.status || strings.Contains(got.text, "of the upstream") != (want.requests == 1) {
			t.Errorf("%d: %d %s", status, got.status, got.text)
		}
		if want.requests == 0 {
			g.wantError(got, http.StatusBadGateway, "server_error")
		}
		g.wantUsed(fmt.Sprint("status ", status), want.requests, 0, 0)
	}
	for name, answer := range map[string]func(x *exchange){
		"no answer": (*exchange).breakOff,
		"half an answer": func(x *exchange) {
			x.Header().Set("Content-Length", "100")
			x.json(http.StatusOK, `{"usage":`)
		},
	} {
		g := newGate(t, answer)
		got := g.get(request(200, ""))
		g.wantError(got, http.StatusBadGateway, "server_error")
		g.wantUsed(name, 0, 0, 0)
	}
	g := newGate(t, nil)
	g.Close()
	got := g.get(request(200, `,"stream":true`))
	g.wantError(got, http.StatusBadGateway, "server_error")
	g.wantUsed("connection refused", 0, 0, 0)
}
