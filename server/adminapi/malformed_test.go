package adminapi_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// listening collects the logs of the API and the audit.
func listening(to *testenv.LogBuffer) func(*settings) {
	return func(s *settings) {
		s.log = to.Logger()
		s.auditLog = s.log
	}
}

// malformed returns invalid requests of a writer with a valid precondition: method,
// path, body and headers.
func malformed() [][]string {
	const get, put, post, del = http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete
	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	all := [][]string{
		{get, "/v1/rule-sets?limit=0"}, {get, "/v1/rule-sets?limit=-1"}, {get, "/v1/rule-sets?limit=1001"}, {get, "/v1/rule-sets?limit=ten"},
		{get, "/v1/rule-sets?limit=1e2"}, {get, "/v1/rule-sets?limit=99999999999999999999"}, {get, "/v1/rule-sets?Limit=5"}, {get, "/v1/rule-sets?nonsense"},
		{get, "/v1/rule-sets?after=" + strings.Repeat("a", 65)}, {get, "/v1/rule-sets?limit=5&offset=5"}, {get, mine + "/revisions?before=x"},
		{get, "/v1/whoami?who=me"}, {get, mine + "/rules?offset=-1"}, {get, mine + "/rules?offset=x"}, {get, mine + "/revisions?before=-3"},
		{get, mine + "/revisions/0"}, {get, mine + "/revisions/-1"}, {get, mine + "/revisions/one"}, {get, mine + "/revisions/99999999999999999999"},
		{get, mine + "/diff?from=-1"}, {get, mine + "/diff?to=x"},
		{get, "/v1/rule-sets/a%20b"}, {get, "/v1/rule-sets/a%2Fb"}, {get, "/v1/rule-sets/%00"}, {get, "/v1/rule-sets/%FF"}, {get, "/v1/rule-sets/" + strings.Repeat("a", 65)},
		{get, "/v1/rule-sets/..%2F..%2Fetc"}, {get, "/v1/rule-sets/%C3%A4"}, {get, mine + "/rules/a%20b"}, {get, mine + "/rules/%0A"},
		{post, mine + "/revisions/0/restore"}, {post, mine + "/revisions/x/restore"}, {post, mine + "/revisions/9/restore"},
		{put, "/v1/rule-sets/a%20b", setOf("a", 5)}, {del, "/v1/rule-sets/a%20b"}, {del, mine + "/rules/a%20b"}, {put, mine + "/rules/a%20b", ruleOf("a", 5)},
		{put, mine + "?comment=" + strings.Repeat("a", 1_025), setOf("mine", 9)}, {put, mine + "?comment=%00", setOf("mine", 9)}, {put, mine + "?comment=%FF", setOf("mine", 9)},
		{put, mine + "?comment=%1B%5B31m", setOf("mine", 9)}, {put, mine + "?comment=" + strings.Repeat("%C3%A4", 600), setOf("mine", 9)}, {put, mine + "?force=perhaps", setOf("mine", 9)}, {put, mine + "?forced=true", setOf("mine", 9)},
		{put, mine}, {post, "/v1/validate"}, {post, mine + "/explain"}, {post, mine + "/buckets/reset"}, {post, mine + "/buckets/peek"},
		{put, mine, setOf("mine", 9), "Content-Type", "text/plain"}, {put, mine, setOf("mine", 9), "Content-Type", "application/xml"},
		{put, mine, setOf("mine", 9), "Content-Type", "application/x-www-form-urlencoded"}, {put, mine, setOf("mine", 9), "Content-Type", "multipart/form-data"},
		{put, mine, setOf("mine", 9), "Content-Type", "nonsense"}, {post, mine + "/explain", `{}`, "Content-Type", "text/plain"},
		{put, mine, setOf("mine", 9), "Content-Encoding", "gzip", "Content-Type", "application/gzip"},
		{put, mine, `{"id":"mine","rules":[` + deep + `]}`}, {put, mine, `{"id":"mine","rules":` + strings.Repeat("[", 20_000)}, {put, mine, "\xff\xfe"},
		{put, mine, `{"id":"mine","rules":[{"id":"mine-0","bands":[{"capacity":1e400,"refill":"1s"}]}]}`},
		{put, mine, `{"id":"mine","rules":[{"id":"mine-0","bands":[{"capacity":1,"refill":"-1s"}]}]}`}, {put, mine, `{"id":"mine","rules":{}}`}, {put, mine, `{"id":["mine"]}`},
		{put, mine, `{"id":"mine","id":"yours","rules":[]}`}, {put, mine, `{"id":"mine","rules":[null]}`}, {put, mine, `{"id":"mine","rules":[{"id":"mine-0","attributes":` + deep + `}]}`},
		{post, mine + "/explain", `[]`}, {post, mine + "/explain", `null`}, {post, mine + "/explain", `{"cost":-1}`}, {post, mine + "/explain", `{"cost":1.5}`}, {post, mine + "/explain", `{"cost":"1"}`},
		{post, mine + "/explain", `{"cost":9223372036854775808}`}, {post, mine + "/explain", `{"timeoutMs":1e300}`}, {post, mine + "/explain", `{"timeoutMs":-1}`}, {post, mine + "/explain", `{"ip":"1.2.3"}`},
		{post, mine + "/explain", `{"headers":{"a":"b"}}`}, {post, mine + "/explain", `{"headers":[]}`}, {post, mine + "/explain", `{"attributes":{"a":["b"]}}`}, {post, mine + "/explain", `{"bytes":true,"path":"/\u0100"}`},
		{post, mine + "/explain", `{"nonsense":1}`}, {post, mine + "/explain", `{"attributes":` + deep + `}`}, {post, mine + "/explain?applying=perhaps", `{}`}, {post, mine + "/explain", `{} {}`},
		{post, mine + "/effective", `7`}, {post, mine + "/buckets/peek", `{}`}, {post, mine + "/buckets/peek", `{"request":{},"rules":"mine-0"}`},
		{post, mine + "/buckets/peek", `{"request":{},"rules":[` + strings.Repeat(`"a",`, 64) + `"a"]}`}, {post, mine + "/buckets/peek", `{"request":{},"rules":["a b"]}`},
		{post, mine + "/buckets/reset", `{"rule":"a b"}`}, {post, mine + "/buckets/reset", `{"ruleSet":"yours"}`}, {post, mine + "/buckets/reset", `{"key":"00112233445566778899aabbccddeeff0011223344556677"}`},
		{post, mine + "/buckets/reset", `{"rule":"mine-0","key":"0011"}`}, {post, mine + "/buckets/reset", `{"rule":"mine-0","key":"00112233445566778899AABBCCDDEEFF"}`},
		{post, mine + "/buckets/reset", `{"rule":"mine-0","key":"00112233445566778899aabbccddeeff0011223344556677","request":{}}`}, {post, mine + "/buckets/reset", `{"request":{}}`},
		{post, mine + "/buckets/reset", `{"rule":"mine-0","request":{"ip":"x"}}`}, {post, mine + "/buckets/reset", `{"rule":"none"}`},
		{post, mine + "/buckets/reset", `{"rule":"mine-0","request":{"ruleSet":"yours"}}`},
		{get, mine + "/overrides?after=" + strings.Repeat("a", 33)}, {get, mine + "/overrides?after=none"}, {get, mine + "/overrides/none"}, {get, mine + "/overrides/" + strings.Repeat("0", 32)},
		{put, mine + "/overrides"}, {put, mine + "/overrides", "null"}, {put, mine + "/overrides", `{"overrides":7}`}, {put, mine + "/overrides", `{"overrides":[null]}`}, {put, mine + "/overrides", `{"overrides":[` + deep + `]}`},
		{put, mine + "/overrides", `{"overrides":[{"ruleId":"mine-0","identity":{},"times":1e9}]}`}, {put, mine + "/overrides?dryRun=perhaps", `{"overrides":[]}`}, {del, mine + "/overrides/" + strings.Repeat("0", 32)},
	}
	return all
}

// No malformed request is answered with 500.
func TestMalformed_Never500(t *testing.T) {
	var log testenv.LogBuffer
	r := start(t, listening(&log))
	r.create(t, mine, setOf("mine", 5))
	all := malformed()
	if len(all) < 60 {
		t.Fatalf("only %d requests", len(all))
	}
	for _, c := range all {
		body, headers := "", []string{}
		if len(c) > 2 {
			body, headers = c[2], c[3:]
		}
		got := r.send(t, c[0], c[1], body, append(headers, "If-Match", "*")...)
		what := fmt.Sprintf("%s %.100s %.100s %v", c[0], c[1], body, headers)
		if got.status/100 != 4 {
			t.Errorf("%s answers %d: %s", what, got.status, got.body)
			continue
		}
		if p := got.problem(t); p.Status != got.status || p.Title == "" || p.Detail == "" || p.Kind == "" || len(got.body) > 8<<10 {
			t.Errorf("%s answers with %d bytes: %.300s", what, len(got.body), got.body)
		}
	}
	if set, tag := r.read(t, mine); tag != `"1"` || first(t, set).Bands[0].Capacity != 5 {
		t.Errorf("the rule set is at %s", tag)
	}
	if strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("the log has errors:\n%s", log.String())
	}
}

// Bodies that are too long are rejected.
func TestMalformed_TooLong(t *testing.T) {
	r := start(t)
	for path, most := range map[string]int{mine: 16 << 20, mine + "/rules/r": 16 << 20, mine + "/explain": 1 << 20, mine + "/buckets/reset": 1 << 20} {
		method := http.MethodPut
		if strings.Contains(path, "explain") || strings.Contains(path, "reset") {
			method = http.MethodPost
		}
		q, err := http.NewRequestWithContext(t.Context(), method, r.URL+path, io.LimitReader(endless{}, int64(most)+1))
		do(t, err)
		q.Header.Set("Authorization", "Bearer "+tokenWrite)
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("If-None-Match", "*")
		response, err := r.Client().Do(q)
		do(t, err)
		text, err := io.ReadAll(response.Body)
		do(t, err)
		do(t, response.Body.Close())
		answer{response.StatusCode, response.Header, string(text)}.want(t, http.StatusRequestEntityTooLarge).problem(t)
	}
}

// endless is a reader of endless white space.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
