package simulate

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
)

// parsed parses one line.
func parsed(t testing.TB, format Format, line string, mapping ...string) (*entry, error) {
	t.Helper()
	fields, err := newJSONFields(mapping)
	if err != nil {
		t.Fatal(err)
	}
	e := new(entry)
	f := formatter{format: format, fields: fields, headers: true}
	return e, f.parse(line, e)
}

var logTime = time.Date(2026, 11, 16, 15, 0, 0, 0, time.UTC).UnixMicro()

func TestParse_Requests(t *testing.T) {
	ip := netip.MustParseAddr("192.0.2.7")
	for _, c := range []struct {
		name    string
		line    string
		mapping []string
		want    fluxgate.Request
		status  int
	}{
		{
			name:   "combined",
			line:   `192.0.2.7 - ada [16/Nov/2026:15:00:00 +0000] "GET /api/orders?page=2 HTTP/1.1" 200 512 "https://example.com/" "curl/8"`,
			want:   fluxgate.Request{IP: ip, UserID: "ada", Method: "GET", Path: "/api/orders?page=2", Headers: map[string][]string{"Referer": {"https://example.com/"}, "User-Agent": {"curl/8"}}},
			status: 200,
		},
		{
			name: "common", line: `2001:db8::1 - - [16/Nov/2026:16:00:00 +0100] "POST / HTTP/1.0" 429 -`,
			want: fluxgate.Request{IP: netip.MustParseAddr("2001:db8::1"), Method: "POST", Path: "/"}, status: 429,
		},
		{
			name: "escapes", line: `- - a b\x22 [c] [16/Nov/2026:15:00:00 +0000] "GET /a b\"\x5C\q HTTP/1.1" 404 0 "-" "say \"hi\" \\"`,
			want: fluxgate.Request{UserID: `a b" [c]`, Method: "GET", Path: `/a b"\\q`, Headers: map[string][]string{"User-Agent": {`say "hi" \`}}}, status: 404,
		},
		{
			name: "absolute URL and more fields", line: `192.0.2.7 - - [16/Nov/2026:15:00:00 +0000] "GET http://shop.example/x?y HTTP/1.1" 200 1 "-" "-" "203.0.113.9" 0.01`,
			want: fluxgate.Request{IP: ip, Method: "GET", Host: "shop.example", Path: "/x?y"}, status: 200,
		},
		{
			name: "JSON of Envoy", line: `{"start_time":"2026-11-16T15:00:00.000Z","method":"POST","path":"/api/v1/locations","authority":"locations","response_code":0,"ip":"203.0.113.9, 192.0.2.7"}`,
			want: fluxgate.Request{IP: ip, Method: "POST", Path: "/api/v1/locations", Host: "locations"},
		},
		{
			name: "JSON of nginx", line: `{"time_iso8601":"2026-11-16T15:00:00+00:00","remote_addr":"192.0.2.7","remote_user":"ada","request":"GET \/api HTTP\/1.1","status":"200"}`,
			want: fluxgate.Request{IP: ip, UserID: "ada", Method: "GET", Path: "/api"}, status: 200,
		},
		{
			name: "JSON of Caddy", line: `{"level":"info","ts":1794841200.0,"request":{"remote_ip":"192.0.2.7","method":"PUT","host":"a.example","uri":"/x","headers":{"X":["y",{}]}},"status":429}`,
			want: fluxgate.Request{IP: ip, Method: "PUT", Host: "a.example", Path: "/x"}, status: 429,
		},
		{
			name: "JSON with a mapping", line: `{"t":1794841200000,"client":{"ip":"192.0.2.7:443","key":"k"},"http.path":"/x","plan":"gold","tier":true,"units":3,"tokens":"120","time":"nonsense"}`,
			mapping: []string{"time=t", "ip=client.ip", "apiKey=client.key", "path=http.path", "header.x-plan=plan", "attr.tier=tier", "cost=units", "cost.tokens=tokens"},
			want: fluxgate.Request{IP: ip, APIKey: "k", Path: "/x", Headers: map[string][]string{"X-Plan": {"gold"}}, Attributes: map[string]string{"tier": "true"},
				Cost: 3, Costs: map[string]int64{"tokens": 120}},
		},
	} {
		e, err := parsed(t, Auto, c.line, c.mapping...)
		if err != nil || e.micros != logTime || e.status != c.status || !reflect.DeepEqual(e.req, c.want) {
			t.Errorf("%s: %v\n%+v, %d, %v\nwant\n%+v, %d", c.name, err, e.req, e.status, time.UnixMicro(e.micros).UTC(), c.want, c.status)
		}
	}
}

// What is not of the format is refused with its reason, never half understood.
func TestParse_Refused(t *testing.T) {
	for _, c := range []struct {
		format Format
		line   string
		want   error
	}{
		{Auto, "", errEmpty},
		{Auto, "\x00\x00\x00", errTime},
		{Auto, "hello world", errTime},
		{Auto, `192.0.2.7 - - [16/Nov/2026:15:00:00] "GET / HTTP/1.1" 200 1`, errTime},
		{Auto, `gateway - - [16/Nov/2026:15:00:00 +0000] "GET / HTTP/1.1" 200 1`, errAddress},
		{Auto, `192.0.2.7 - - [16/Nov/2026:15:00:00 +0000] "-" 400 0`, errRequest},
		{Auto, `192.0.2.7 - - [16/Nov/2026:15:00:00 +0000] "\x16\x03\x01" 400 0`, errRequest},
		{Auto, `192.0.2.7 - - [16/Nov/2026:15:00:00 +0000] "GET / HTTP/1.1`, errQuote},
		{Auto, `192.0.2.7 - - [16/Nov/2026:15:00:00 +0000] "GET / HTTP/1.1" 2000 1`, errStatus},
		{Auto, `192.0.2.7 - - [16/Nov/2026:15:00:00 +0000] "GET / HTTP/1.1" 200 1 "open`, errQuote},
		{Auto, `[2026-11-16T15:00:00Z] "GET / HTTP/1.1" 200 - 0 0 5 - "192.0.2.7" "a" "b" "c" "d"`, errTime},
		{Auto, `{`, errJSON},
		{Auto, `{"time":1} {}`, errJSON},
		{Auto, `{"path":"/"}`, errTime},
		{Auto, `{"time":"yesterday","path":"/"}`, errTime},
		{Auto, `{"time":1794841200}`, errPath},
		{Combined, `] "`, errTime},
		{JSON, `[]`, errJSON},
		{JSON, `192.0.2.7 - - [16/Nov/2026:15:00:00 +0000] "GET / HTTP/1.1" 200 1`, errJSON},
		{Combined, `{"time":1794841200,"path":"/"}`, errTime},
	} {
		if e, err := parsed(t, c.format, c.line); err != c.want { //nolint:errorlint // the value itself
			t.Errorf("%s %s: %v, want %v\n%+v", c.format, c.line, err, c.want, e.req)
		}
	}
	if _, err := parsed(t, JSON, `{"time":1,"path":"/","n":1.5}`, "cost=n"); err != errCost { //nolint:errorlint // the value itself
		t.Errorf("a cost of 1.5: %v", err)
	}
}

func TestFields_Refused(t *testing.T) {
	for _, mapping := range []string{"ip", "ip=", "=x", "colour=x", "header.=x", "attr=x"} {
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
	if err == nil && (e.micros < 0 || e.micros > maxMicros || e.req.Path == "" || e.status < 0 || e.status > 999) {
		t.Errorf("%q became %+v at %d", line, e.req, e.micros)
	}
}

func FuzzCombined(f *testing.F) {
	f.Add(`192.0.2.7 - ada [16/Nov/2026:15:00:00 +0000] "GET /api/orders?page=2 HTTP/1.1" 200 512 "https://example.com/" "curl/8"`)
	f.Add(`- - - [16/Nov/2026:15:00:00 +0000] "GET http://x HTTP/1.1" 200 512 "\x" "\\"`)
	f.Fuzz(func(t *testing.T, line string) {
		e, err := parsed(t, Combined, line)
		checkEntry(t, line, e, err)
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

// An ordinary line of a format that every request of a busy proxy is logged in costs no
// allocation, unless rules look at headers.
func TestParse_Allocations(t *testing.T) {
	fields, err := newJSONFields(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`192.0.2.7 - ada [16/Nov/2026:15:00:00 +0000] "GET /api/orders?page=2 HTTP/1.1" 200 512 "https://example.com/" "curl/8"`,
		`[2026-11-16T15:00:00.310Z] "POST /api HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" "cc21d9b0" "locations" "tcp://10.0.2.1:80"`,
		"a line that cannot be parsed",
	} {
		f, e := formatter{format: Auto, fields: fields}, new(entry)
		if n := testing.AllocsPerRun(100, func() { _ = f.parse(line, e) }); n != 0 {
			t.Errorf("%v allocations for %s", n, line)
		}
	}
}
