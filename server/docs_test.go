package server_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
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
	text, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, "redis.enabled=false", "rules.file=../examples/rules.yaml")
	fences := strings.Split(string(text), "\n```")
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
	if asked < 4 {
		t.Errorf("only %d requests are documented", asked)
	}
}
