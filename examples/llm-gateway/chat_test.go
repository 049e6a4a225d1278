package main

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
)

// Requests that could use more than is estimated are refused, count nothing and do not
// reach the upstream.
func TestGateway_RefusesWhatItCannotEstimate(t *testing.T) {
	g := newGate(t, nil)
	message := func(fields string) string { return `{"model":"small","messages":[` + fields + `]}` }
	for _, body := range []string{
		``, `null`, `[]`, `"x"`, `{`, `{} {}`, `{"model":"small"}`, `{"messages":[{"content":"x"}]}`,
		request(200, "") + request(200, ""), strings.Repeat(`{"messages":[`, 20_000),
		`{"model":"","messages":[{"content":"x"}]}`, `{"model":["small"],"messages":[{"content":"x"}]}`,
		message(``), message(`"x"`), message(`7`), `{"model":"small","messages":{"content":"x"}}`, `{"model":"small","messages":null}`,

		// Maxima and numbers of choices.
		limited(`"max_tokens":-1`), limited(`"max_completion_tokens":-1`), limited(`"max_tokens":5,"max_completion_tokens":-1`),
		limited(`"max_tokens":"5"`), limited(`"max_tokens":5.5`), limited(`"max_tokens":1e30`), limited(`"max_tokens":1e2`), limited(`"max_tokens":[5]`),
		limited(`"max_tokens":9223372036854775807`), limited(`"max_tokens":18446744073709551617`), limited(`"max_tokens":10000001`),
		limited(`"n":0,"max_tokens":5`), limited(`"n":-1,"max_tokens":5`), limited(`"n":129,"max_tokens":5`), limited(`"n":"3","max_tokens":5`), limited(`"n":1e9,"max_tokens":5`),
		limited(`"n":3`), limited(`"n":3,"max_tokens":0`),
		// Names that another parser could read as these.
		limited(`"MAX_TOKENS":5`), limited(`"max_tokens":5,"N":100`), limited(`"ſtream":true`), limited(`"max_tokens ":5`),

		limited(`"stream":"true"`), limited(`"stream":1`), limited(`"stream":true,"stream_options":"x"`), limited(`"stream":true,"stream_options":[]`),
		limited(`"stream":true,"stream_options":{"include_usage":"true"}`), limited(`"stream_options":7`),

		// Fields that cost more than tokens of the text.
		limited(`"service_tier":"priority"`), limited(`"web_search_options":{}`), limited(`"modalities":["audio"]`), limited(`"best_of":20`), limited(`"models":["dear"]`),
		message(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/x.png"}}]}`),
		message(`{"role":"user","content":[{"type":"text","text":"x"},{"type":"file","file":{"file_id":"x"}}]}`),
		message(`{"role":"user","content":[{"type":"text","type":"image_url","text":"x"}]}`), message(`{"role":"user","content":[{"text":"x"}]}`),
		message(`{"role":"user","content":{"type":"text"}}`), message(`{"role":"user","content":7}`), message(`{"role":"assistant","audio":{"id":"x"}}`),
	} {
		got := g.get(body)
		g.wantError(got, http.StatusBadRequest, "invalid_request_error")
		if len(got.text) > 300 {
			t.Errorf("an error of %d bytes", len(got.text))
		}
	}
	got := g.get(request(maxBody+1, ""))
	g.wantError(got, http.StatusRequestEntityTooLarge, "invalid_request_error")
	g.wantUsed("refused", 0, 0, 0)
	if n := g.calls.Load(); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
}

// limited is a request with other fields.
func limited(fields string) string {
	return `{"model":"small","messages":[{"role":"user","content":"x"}],` + fields + `}`
}

// What is passed on has each name once, with the value that was estimated. Schemas keep
// their order.
func TestParseChat_PassesOnWhatItRead(t *testing.T) {
	for body, want := range map[string]string{
		limited(`"max_tokens":9000,"max_tokens":5`):                                                                 `{"max_tokens":5,"messages":[{"content":"x","role":"user"}],"model":"small"}`,
		`{"model":"dear","model":"small","messages":[{"content":[{"type":"image_url","type":"text","text":"x"}]}]}`: `{"messages":[{"content":[{"text":"x","type":"text"}]}],"model":"small"}`,
		limited(`"stream":true,"stream_options":{"include_usage":false,"include_usage":true,"x":1}`):                `{"messages":[{"content":"x","role":"user"}],"model":"small","stream":true,"stream_options":{"include_usage":true}}`,
		limited(`"response_format":{"z":1,"a":2}`):                                                                  `{"messages":[{"content":"x","role":"user"}],"model":"small","response_format":{"z":1,"a":2}}`,
		`{"model":"small","messages":[{"role":"assistant","content":null,"tool_calls":[{"z":1,"a":2}]}]}`:           `{"messages":[{"content":null,"role":"assistant","tool_calls":[{"z":1,"a":2}]}],"model":"small"}`,
	} {
		c, err := parseChat([]byte(body))
		if err != nil || string(c.body) != want {
			t.Errorf("%s is passed on as %s, want %s: %v", body, c.body, want, err)
		}
	}
}

// A prompt has at most as many tokens as bytes, however it is written.
func TestParseChat_InputTokens(t *testing.T) {
	for _, text := range []string{"x", "é", "\xff\xff\xff", `\u00e9`, `\ud83d\ude00`, "<&>", "  "} {
		c, err := parseChat([]byte(`{"model":"small","messages":[{"content":[{"type":"text","text":"` + text + `"}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		var sent struct {
			Messages []struct{ Content []struct{ Text string } }
		}
		if err := json.Unmarshal(c.body, &sent); err != nil {
			t.Fatal(err)
		}
		if n := int64(len(sent.Messages[0].Content[0].Text)); c.estimate.InputTokens < n || n == 0 {
			t.Errorf("%q: %d tokens for %d bytes", text, c.estimate.InputTokens, n)
		}
	}
}

func TestHidesReasoning(t *testing.T) {
	for model, want := range map[string]bool{
		"o3": true, "o4-mini": true, "gpt-5-nano": true, "openai/o3": true, "ft:o4-mini:x": true, "O3": true,
		"gpt-4o": false, "small": false, "foo3": false,
	} {
		if got := hidesReasoning.MatchString(model); got != want {
			t.Errorf("%s: %v", model, got)
		}
	}
}

// Whatever is accepted is passed on with names that occur once, means the same when it
// is read again, and has an estimate that can be decided.
func FuzzParseChat(f *testing.F) {
	f.Add(request(200, ""))
	f.Add(limited(`"max_tokens":9000,"max_tokens":5,"stream":true,"n":2`))
	f.Add(`{"model":"m","messages":[{"content":[{"type":"text","text":"x"}]},{}],"stream_options":{}}`)
	f.Fuzz(func(t *testing.T, body string) {
		c, err := parseChat([]byte(body))
		if err != nil {
			return
		}
		again, err := parseChat(c.body)
		if err != nil || again.estimate.Model != c.estimate.Model || again.estimate.MaxOutputTokens != c.estimate.MaxOutputTokens {
			t.Fatalf("%s: %+v, then %+v: %v", c.body, c.estimate, again, err)
		}
		if e := c.estimate; e.InputTokens != int64(len(c.body)) || e.MaxOutputTokens < 0 || e.MaxOutputTokens > maxTokens*maxChoices {
			t.Fatalf("%s: %+v", c.body, e)
		}
		var names []string
		decoder := json.NewDecoder(strings.NewReader(string(c.body)))
		_ = fluxgate.Must(decoder.Token())
		for decoder.More() {
			names = append(names, fluxgate.Must(decoder.Token()).(string))
			if err := decoder.Decode(new(json.RawMessage)); err != nil {
				t.Fatal(err)
			}
		}
		if all := len(names); len(slices.Compact(slices.Sorted(slices.Values(names)))) != all {
			t.Fatalf("a name occurs twice: %s", c.body)
		}
	})
}
