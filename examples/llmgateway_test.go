package examples_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// newModel is a model server that says hello.
func newModel(t *testing.T) *httptest.Server {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const usage = `"usage":{"prompt_tokens":9,"completion_tokens":2}`
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Authorization") != "Bearer your-key" {
			t.Errorf("%v %v", r.Header, err)
		}
		if !strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":"Hello!"}}],%s}`, usage)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, text := range []string{"Hello", "!"} {
			_, _ = fmt.Fprintf(w, "data: "+`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":%q}}],"usage":null}`+"\n\n", text)
		}
		_, _ = fmt.Fprintf(w, "data: {\"choices\":[],%s}\n\ndata: [DONE]\n\n", usage)
	}))
	t.Cleanup(model.Close)
	return model
}

// The commands of llm-gateway/README.md print what it shows. Only the address and the
// time to wait differ.
func TestExamples_LLMGateway(t *testing.T) {
	type step struct{ command, output string }
	var steps []step
	for _, block := range blocksOf(t, "llm-gateway/README.md", "console") {
		for line := range strings.Lines(block) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, step{command: strings.TrimSpace(command)})
			} else {
				steps[len(steps)-1].output += line
			}
		}
	}
	settings, ok := strings.CutPrefix(steps[0].command, "export ")
	if !ok || steps[1].command != "go run ./llm-gateway &" || len(steps) < 5 {
		t.Fatalf("it begins with %q", steps)
	}
	for setting := range strings.FieldsSeq(settings) {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
	url := run(t, "llm-gateway", "-upstream", newModel(t).URL)
	wait := regexp.MustCompile(`in \d+s`)
	for _, s := range steps[2:] {
		out, err := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(s.command, "http://127.0.0.1:8080", url)).CombinedOutput()
		if err != nil {
			t.Fatalf("$ %s\n%v\n%s", s.command, err, out)
		}
		printed := strings.ReplaceAll(string(out), "\r", "")
		if got, want := wait.ReplaceAllString(printed, ""), wait.ReplaceAllString(s.output, ""); got != want {
			t.Errorf("$ %s\nprints\n%s\nand not\n%s", s.command, printed, s.output)
		}
	}
}

// Gateways share budgets in Redis.
func TestExamples_LLMGatewayRedis(t *testing.T) {
	t.Setenv("GATEWAY_KEYS", "research:my-key")
	t.Setenv("OPENAI_API_KEY", "your-key")
	redis, model := testenv.StartStandalone(t, testenv.Config{}), newModel(t)
	for _, want := range []string{"59", "58"} {
		url := run(t, "llm-gateway", "-upstream", model.URL, "-redis", redis.URI())
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(`{"model": "gpt-4o", "messages": [{"content": "Hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer my-key")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if got := res.Header.Get("X-Ratelimit-Remaining-Requests"); got != want {
			t.Errorf("%s requests left, want %s", got, want)
		}
	}
}
