package server_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/server/config"
)

// timesAway takes out of an answer what differs from day to day.
func timesAway(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			if strings.HasSuffix(name, "Ms") && name != "refillMs" || name == "receipt" {
				v[name] = "…"
				continue
			}
			v[name] = timesAway(v[name])
		}
	case []any:
		for i := range v {
			v[i] = timesAway(v[i])
		}
	}
	return value
}

// The requests in docs/api.md get the answers shown there.
func TestDocs_API(t *testing.T) {
	r := start(t, "redis.enabled=false", "rules.file=../examples/rules.yaml")
	replay(t, r, fencesOf(t, "../docs/api.md"), 4)
}

// The requests in docs/llm.md get the answers shown there, with the rules to copy.
func TestDocs_LLM(t *testing.T) {
	fences := fencesOf(t, "../docs/llm.md")
	rules, ok := strings.CutPrefix(fences[1], "yaml\n")
	if !ok {
		t.Fatal("the page does not begin with rules")
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	replay(t, start(t, "redis.enabled=false", "rules.file="+file), fences, 2)
	for _, fence := range fences {
		if settings, ok := strings.CutPrefix(fence, "yaml\nfluxgate:"); ok {
			if err := os.WriteFile(file, []byte("fluxgate:"+settings), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(config.Sources{File: file}); err != nil {
				t.Error(err)
			}
		}
	}
}

// fencesOf returns a page split at its fences: every second part is a block.
func fencesOf(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n```")
}

// replay sends the documented requests, at least so many, and compares the answers.
func replay(t *testing.T, r *running, fences []string, least int) {
	t.Helper()
	asked, receipt := 0, ""
	for i := 1; i+2 < len(fences); i += 2 {
		request, ok := strings.CutPrefix(fences[i], "http\n")
		if !ok {
			continue
		}
		want, ok := strings.CutPrefix(fences[i+2], "json\n")
		if !ok {
			t.Fatalf("there is no answer to\n%s", request)
		}
		line, body, _ := strings.Cut(request, "\n\n")
		method, path, _ := strings.Cut(line, " ")
		body = strings.ReplaceAll(body, "AbYm…", receipt)
		a := r.do(t, method, path, body, "Content-Type", "application/json")
		var got, documented any
		if json.Unmarshal([]byte(a.body), &got) != nil || json.Unmarshal([]byte(want), &documented) != nil {
			t.Fatalf("%s\nanswers %d %s\nand not %s", request, a.status, a.body, want)
		}
		if o, ok := got.(map[string]any); ok && o["receipt"] != nil && receipt == "" {
			receipt, _ = o["receipt"].(string)
		}
		if !reflect.DeepEqual(timesAway(got), timesAway(documented)) {
			t.Errorf("%s\nanswers %d %s\nand not %s", request, a.status, a.body, want)
		}
		asked++
	}
	if asked < least {
		t.Errorf("only %d requests are documented", asked)
	}
}
