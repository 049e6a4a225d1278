package adminapi_test

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/server/config"
)

// varying replaces the parts of an answer that vary.
func varying(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			switch name {
			case "timeMs", "at", "key", "time", "seq", "from", "since", "perSecond":
				v[name] = "…"
			case "detail":
				text, _ := v[name].(string)
				v[name], _, _ = strings.Cut(text, " (token:")
			default:
				v[name] = varying(v[name])
			}
		}
	case []any:
		for i := range v {
			v[i] = varying(v[i])
		}
	}
	return value
}

// The requests and answers in docs/admin.md are those of the API.
func TestDocs_AdminAPI(t *testing.T) {
	text, err := os.ReadFile("../../docs/admin.md")
	do(t, err)
	r := start(t, func(s *settings) {
		s.server.Auth.Tokens = []config.Token{token("ada", tokenWrite, nil, config.RoleWrite, config.RoleIdentities)}
	})
	read := func(text string) any {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		return varying(value)
	}
	fences := strings.Split(string(text), "\n```")
	asked, audited := 0, false
	for i := 1; i < len(fences); i += 2 {
		request, isRequest := strings.CutPrefix(fences[i], "http\n")
		shown, isJSON := strings.CutPrefix(fences[i], "json\n")
		switch {
		case isRequest:
			want, ok := strings.CutPrefix(fences[i+2], "json\n")
			if !ok {
				t.Fatalf("docs/admin.md has no answer to\n%s", request)
			}
			head, body, _ := strings.Cut(request, "\n\n")
			lines := strings.Split(head, "\n")
			method, path, _ := strings.Cut(lines[0], " ")
			var headers []string
			for _, line := range lines[1:] {
				name, value, _ := strings.Cut(line, ": ")
				headers = append(headers, name, value)
			}
			if strings.HasPrefix(path, "/v1/callers") {
				for range 8 { // 5 pass
					_, err := r.engine.Check(t.Context(), &fluxgate.Request{RuleSet: "api-limits", UserID: "alice"})
					do(t, err)
				}
			}
			got := r.send(t, method, path, body, headers...)
			if !reflect.DeepEqual(read(got.body), read(want)) {
				t.Errorf("%s\nanswers %d %s\nwant %s", request, got.status, got.body, want)
			}
			asked++
			i += 2
		case isJSON:
			records, err := os.ReadFile(r.auditFile)
			do(t, err)
			for record := range strings.Lines(string(records)) {
				audited = audited || reflect.DeepEqual(read(record), read(shown))
			}
			if !audited {
				t.Errorf("no record is %s in\n%s", shown, records)
			}
		}
	}
	if asked < 5 || !audited {
		t.Errorf("only %d requests are documented, and the audit: %t", asked, audited)
	}
}
