package simulate

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
)

// parsed parses one line.
func parsed(t testing.TB, line string, mapping ...string) (*entry, error) {
	t.Helper()
	fields, err := newJSONFields(mapping)
	if err != nil {
		t.Fatal(err)
	}
	s := source{fields: fields, entry: new(entry)}
	return s.entry, s.parse(line)
}

var logTime = time.Date(2026, 11, 16, 15, 0, 0, 0, time.UTC)

func TestParse_Requests(t *testing.T) {
	ip := netip.MustParseAddr("192.0.2.7")
	for _, c := range []struct {
		name    string
		line    string
		mapping []string
		want    fluxgate.Request
	}{
		{
			name: "combined",
			line: `192.0.2.7 - ada [16/Nov/2026:15:00:00 +0000] "GET /api/orders?page=2 HTTP/1.1" 200 512 "https://example.com/" "curl/8"`,
			want: fluxgate.Request{IP: ip, UserID: "ada", Method: "GET", Path: "/api/orders?page=2", Headers: map[string][]string{"Referer": {"https://example.com/"}, "User-Agent": {"curl/8"}}},
		},
		{
			name: "common", line: `2001:db8::1 - - [16/Nov/2026:16:00:00 +0100] "POST / HTTP/1.0" 429 -`,
			want: fluxgate.Request{IP: netip.MustParseAddr("2001:db8::1"), Method: "POST", Path: "/"},
		},
		{
			name: "escapes", line: `- - a b\x22 [c] [16/Nov/2026:15:00:00 +0000] "GET /a b\"\x5C\\q HTTP/1.1" 404 0 "-" "say \"hi\" \\"`,
			want: fluxgate.Request{UserID: `a b" [c]`, Method: "GET", Path: `/a b"\\q`, Headers: map[string][]string{"User-Agent": {`say "hi" \`}}},
		},
		{
			name: "more fields", line: `192.0.2.7 - - [16/Nov/2026:15:00:00 +0000] "GET /x?y HTTP/1.1" 200 1 "-" "-" "203.0.113.9" 0.01`,
			want: fluxgate.Request{IP: ip, Method: "GET", Path: "/x?y"},
		},
		{
			name: "JSON of Envoy", line: `{"start_time":"2026-11-16T15:00:00.000Z","method":"POST","path":"/api/v1/locations","authority":"locations","response_code":0,"ip":"203.0.113.9, 192.0.2.7"}`,
			want: fluxgate.Request{IP: ip, Method: "POST", Path: "/api/v1/locations", Host: "locations"},
		},
		{
			name: "JSON of nginx", line: `{"time_iso8601":"2026-11-16T15:00:00+00:00","remote_addr":"192.0.2.7","remote_user":"ada","request":"GET \/api HTTP\/1.1","status":"200"}`,
			want: fluxgate.Request{IP: ip, UserID: "ada", Method: "GET", Path: "/api"},
		},
		{
			name: "JSON of Caddy", line: `{"level":"info","ts":1794841200.0,"request":{"remote_ip":"192.0.2.7","method":"PUT","host":"a.example","uri":"/x","headers":{"X":["y",{}]}},"status":429}`,
			want: fluxgate.Request{IP: ip, Method: "PUT", Host: "a.example", Path: "/x"},
		},
		{
			name: "JSON with a mapping", line: `{"t":1794841200000,"client":{"ip":"192.0.2.7:443","key":"k"},"http.path":"/x","plan":"gold","tier":true,"units":3,"tokens":"120","time":"nonsense"}`,
			mapping: []string{"time=t", "ip=client.ip", "apiKey=client.key", "path=http.path", "header.x-plan=plan", "attr.tier=tier", "cost=units", "cost.tokens=tokens"},
			want: fluxgate.Request{IP: ip, APIKey: "k", Path: "/x", Headers: map[string][]string{"X-Plan": {"gold"}}, Attributes: map[string]string{"tier": "true"},
				Cost: 3, Costs: map[string]int64{"tokens": 120}},
		},
	} {
		e, err := parsed(t, c.line, c.mapping...)
		if err != nil || !e.at.Equal(logTime) || !reflect.DeepEqual(e.req, c.want) {
			t.Errorf("%s: %v\n%+v, %v\nwant\n%+v", c.name, err, e.req, e.at, c.want)
		}
	}
}

// What is not of the format is refused with its reason, never half understood.
func TestParse_Refused(t *testing.T) {
	for _, c := range []struct {
		line string
		want error
	}{
		{"", errTime},
		{"\x00\x00\x00", errTime},
		{"hello world", errTime},
		{`192.0.2.7 - - [16/Nov/2026:15:00:00] "GET / HTTP/1.1" 200 1`, errTime},
		{`gateway - - [16/Nov/2026:15:00:00 +0000] "GET / HTTP/1.1" 200 1`, errAddress},
		{`192.0.2.7 - - [16/Nov/2026:15:00:00 +0000] "-" 400 0`, errRequest},
		{`192.0.2.7 - - [16/Nov/2026:15:00:00 +0000] "\x16\x03\x01" 400 0`, errRequest},
		{`192.0.2.7 - - [16/Nov/2026:15:00:00 +0000] "GET / HTTP/1.1`, errQuote},
		{`192.0.2.7 - - [16/Nov/2026:15:00:00 +0000] "GET / HTTP/1.1" 200 1 "open`, errQuote},
		{`192.0.2.7 - - [16/Nov/2026:15:00:00 +0000] "GET /\q HTTP/1.1" 200 1`, errQuote},
		{`[2026-11-16T15:00:00Z] "GET / HTTP/1.1" 200 - 0 0 5 - "192.0.2.7" "a" "b" "c" "d"`, errTime},
		{`{`, errJSON},
		{`{"time":1} {}`, errJSON},
		{`{"path":"/"}`, errTime},
		{`{"time":"yesterday","path":"/"}`, errTime},
		{`{"time":1794841200}`, errPath},
		{`] "`, errTime},
	} {
		if e, err := parsed(t, c.line); err != c.want { //nolint:errorlint // the value itself
			t.Errorf("%s: %v, want %v\n%+v", c.line, err, c.want, e.req)
		}
	}
	if _, err := parsed(t, `{"time":1,"path":"/","n":1.5}`, "cost=n"); err != errCost { //nolint:errorlint // the value itself
		t.Errorf("a cost of 1.5: %v", err)
	}
}

func TestFields_Refused(t *testing.T) {
	for _, mapping := range []string{"ip", "ip=", "=x", "colour=x", "header.=x", "attr=x", "cost.requests=x"} {
		if err := Fields([]string{mapping}); err == nil {
			t.Errorf("%q is accepted", mapping)
		}
	}
	if err := Fields(make([]string, 0)); err != nil {
		t.Error(err)
	}
}

// checkEntry checks what holds for every line that is accepted.
func checkEntry(t *testing.T, line string, e *entry, err error) {
	t.Helper()
	if err == nil && (e.at.Year() < 1970 || e.at.Year() > 2199 || e.req.Path == "") {
		t.Errorf("%q became %+v at %v", line, e.req, e.at)
	}
}

func FuzzCombined(f *testing.F) {
	f.Add(`192.0.2.7 - ada [16/Nov/2026:15:00:00 +0000] "GET /api/orders?page=2 HTTP/1.1" 200 512 "https://example.com/" "curl/8"`)
	f.Add(`- - - [16/Nov/2026:15:00:00 +0000] "GET http://x HTTP/1.1" 200 512 "\x" "\\"`)
	f.Fuzz(func(t *testing.T, line string) {
		e := new(entry)
		checkEntry(t, line, e, parseCombined(line, e))
	})
}

func FuzzJSON(f *testing.F) {
	for _, line := range []string{
		`{"time":1794841200,"ip":"192.0.2.7","method":"GET","path":"/x","client":{"ip":"::1"}}`,
		`{"path":1,"path":"x"}`, `{"path":01}`, ` { } `, `{"a":[[[[]]]]}`, `{"path":"` + "\xff" + `"}`, `{"client":{"ip":1},"client.ip":2}`, `{"a":{"b":null},"a.b":{"c":1}}`,
	} {
		f.Add(line)
	}
	fields, err := newJSONFields([]string{"attr.deep=a.b.c"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, line string) {
		e := new(entry)
		checkEntry(t, line, e, fields.parse(line, e))
	})
}
