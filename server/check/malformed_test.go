package check_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// good are bodies that are accepted, to be spoiled.
var good = map[string]string{
	"/v1/check": `{"ruleSet":"api","ip":"2001:db8::1","userId":"ann","apiKey":"key-0123456789","method":"GET","path":"/orders","host":"h",` +
		`"headers":{"X-A":["1","2"]},"attributes":{"tier":"gold"},"cost":1,"peek":true,"timeoutMs":50.5}`,
	"/v1/check:batch":      `{"requests":[{"userId":"ann","peek":true},{"apiKey":"key-0123456789","path":"/keys","peek":true}]}`,
	"/v1/settle":           `{"receipt":"AAAA","actual":3}`,
	"/api/ratelimit/check": `{"ruleSetId":"unknown","clientIp":"192.0.2.1","userId":"ann","apiKey":"key-0123456789","endpoint":"/orders","method":"GET"}`,
}

// A field that is not known is named, in every body, unless its name may be a
// secret.
func TestBody_UnknownField(t *testing.T) {
	d := newDesk(t, newStore(t))
	for path, body := range good {
		for field, want := range map[string]string{
			"user": `unknown field \"user\"`, "rule_set": `unknown field \"rule_set\"`, strings.Repeat("x", 10_000): "not shown", "key-42": "not shown", "": "not shown",
		} {
			a := d.post(path, `{"`+field+`":1,`+body[1:])
			if text := a.Body.String(); a.Code != http.StatusBadRequest || !strings.Contains(text, want) || len(text) > 500 {
				t.Errorf("%s: %d %s", path, a.Code, text)
			}
		}
	}
	if a := d.post("/v1/check:batch", `{"requests":[{"userId":"ann"},{"user":"bob"}]}`); !strings.Contains(a.Body.String(), `unknown field \"user\"`) {
		t.Errorf("%d %s", a.Code, a.Body)
	}
}

// A value of a wrong type is reported with its place and the type that is expected.
func TestBody_WrongType(t *testing.T) {
	d := newDesk(t, newStore(t))
	for body, want := range map[string]string{
		`{"cost":"1"}`: "cost: must be a whole number", `{"peek":1}`: "peek: must be true or false", `{"userId":1}`: "userId: must be a string",
		`{"costs":[]}`: "costs: must be an object", `{"estimate":"x"}`: "estimate: must be an object", `{"headers":{"a":"b"}}`: "headers: must be a list",
		`{"estimate":{"inputTokens":1e3}}`:        "estimate.inputTokens: must be a whole number",
		`{"estimate":{"maxOutputTokens":"16"}}`:   "estimate.maxOutputTokens: must be a whole number",
		`{"estimate":{"maxOutputTokens":[1.5]}}`:  "estimate.maxOutputTokens: must be a whole number",
		`{"cost":9007199254740993}`:               "cost: at most 9007199254740992 is possible",
		`{"estimate":{"maxOutputTokens":-1}}`:     "costs and estimate: invalid cost: it cannot be negative",
		`{"estimate":{"maxOutputTokens":[-1,5]}}`: "costs and estimate: invalid cost: it cannot be negative",
	} {
		if a := d.post("/v1/check", body); a.Code != http.StatusBadRequest || !strings.Contains(a.Body.String(), `"detail":"`+want) {
			t.Errorf("%s: %d %s, want %s", body, a.Code, a.Body, want)
		}
	}
}

// malformed is a body that is no good at all, of one of many kinds.
func malformed(rng *rand.Rand, body string) string {
	kinds := []func() string{
		func() string { return body[:rng.IntN(len(body))] },
		func() string { return body + body },
		func() string { return body + strings.Repeat("}", 1+rng.IntN(9)) },
		func() string { return strings.Repeat(`{"headers":`, 1+rng.IntN(2_000)) },
		func() string { return `{"requests":` + strings.Repeat("[", 1+rng.IntN(20_000)) },
		func() string {
			n := 1 + rng.IntN(3_000)
			return `{"attributes":` + strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) + "}"
		},
		func() string { return strings.Replace(body, ":", ":[", 1+rng.IntN(3)) },
		func() string { return `{"unknown":1,` + body[1:] },
		func() string { return `{"cost":` + strings.Repeat("9", 20+rng.IntN(1000)) + "}" },
		func() string { return `{"cost":1.5}` },
		func() string { return `{"timeoutMs":1e400}` },
		func() string { return `{"userId":"` + string([]byte{0xff, byte(rng.IntN(256))}) + `"}` },
		func() string { return `{"userId":"` + fmt.Sprintf(`\ud%x%02x`, 8+rng.IntN(8), rng.IntN(256)) + `"}` },
		func() string { return `{"userId":"\` + string(rune('0'+rng.IntN(10))) + `"}` },
		func() string {
			return []string{"", " ", "null", "true", "0", `""`, "[]", "\x00", "{}{}", "\ufeff{}"}[rng.IntN(10)]
		},
		func() string {
			raw := make([]byte, rng.IntN(2_000))
			for i := range raw {
				raw[i] = byte(rng.Uint32())
			}
			return string(raw)
		},
	}
	return kinds[rng.IntN(len(kinds))]()
}

// mutated is a body with a few bytes changed. It may still be good.
func mutated(rng *rand.Rand, body string) string {
	b := []byte(body)
	for range 1 + rng.IntN(4) {
		at := rng.IntN(len(b))
		switch rng.IntN(3) {
		case 0:
			b[at] = byte(rng.Uint32())
		case 1:
			b = append(b[:at], b[min(len(b), at+1+rng.IntN(8)):]...)
		default:
			b = append(b[:at], append([]byte(`{}[]":,0\ue-`)[rng.IntN(12):], b[at:]...)...)
		}
		if len(b) == 0 {
			return ""
		}
	}
	return string(b)
}

// memory is what is in use.
func memory() uint64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Of a name that is there twice, one value would be ignored.
func TestBody_NameTwice(t *testing.T) {
	d := newDesk(t, newStore(t))
	token := d.token(`{"userId":"ann","cost":1}`)
	before := d.left()
	for _, c := range []struct{ path, body string }{
		{"/v1/check", `{"userId":"ann","cost":0,"cost":5}`},
		{"/v1/check", `{"userId":"ann","cost":0,"c\u006fst":5}`},
		{"/v1/check", `{"userId":"ann","attributes":{"plan":"free","plan":"gold"}}`},
		{"/v1/check:batch", `{"requests":[{"userId":"ann"},{"userId":"ann","userId":"bob"}]}`},
		{"/v1/check:batch", `{"requests":[{"userId":"ann"}],"requests":[{"userId":"bob"}]}`},
		{"/v1/settle", `{"receipt":"` + token + `","actual":1,"actual":0}`},
		{"/v1/extend", `{"receipt":"x","receipt":"` + token + `"}`},
		{"/api/ratelimit/check", `{"ruleSetId":"api","userId":"ann","userId":"bob"}`},
	} {
		w := d.post(c.path, c.body)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "a name is") {
			t.Errorf("%s %s: %d %s, want 400", c.path, c.body, w.Code, w.Body)
		}
	}
	if d.left() != before {
		t.Errorf("left %v, want %v", d.left(), before)
	}
}

// 10,000 bodies that are malformed, mutated, too large or nested get a 4xx, or a
// decision where a mutation left a valid body. No memory or goroutine leaks. Half
// of them use real connections.
func TestCheck_MalformedBodies(t *testing.T) {
	const bodies, callers = 10_000, 4
	d := newDesk(t, newStore(t))
	server := serve(t, d, 30*time.Second)
	paths := []string{"/v1/check", "/v1/check:batch", "/v1/settle", "/api/ratelimit/check"}
	for _, path := range paths {
		if w := d.post(path, good[path]); w.Code != 200 && path != "/v1/settle" {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	transport := &http.Transport{MaxIdleConnsPerHost: callers}
	defer transport.CloseIdleConnections()
	browser := &http.Client{Transport: transport}
	run := func(seed uint64, n int) (counts map[int]int) {
		counts = map[int]int{}
		var mu sync.Mutex
		var all sync.WaitGroup
		for caller := range uint64(callers) {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(seed, caller))
				for range n / callers {
					path := paths[rng.IntN(len(paths))]
					var body string
					mayPass := false
					switch rng.IntN(100) {
					case 0: // larger than the largest
						body = `{"userId":"` + strings.Repeat("x", 1<<20) + `"}`
					case 1, 2, 3: // too large for most
						body = `{"unknown":"` + strings.Repeat("x", 70<<10) + `"}`
					default:
						body = malformed(rng, good[path])
					}
					if rng.IntN(3) == 0 {
						body, mayPass = mutated(rng, good[path]), true
					}
					var status int
					var answer []byte
					if rng.IntN(2) == 0 {
						status, answer = send(t, browser, server.URL+path, body)
					} else {
						w := d.post(path, body)
						status, answer = w.Code, w.Body.Bytes()
					}
					passed := status == http.StatusOK && mayPass && json.Valid([]byte(body)) && utf8.ValidString(body)
					if !passed && (status < 400 || status > 499) {
						t.Errorf("%s %.200q: %d %s", path, body, status, answer)
					}
					if bytes.Contains(answer, []byte("key-0123456789")) {
						t.Errorf("the key is in the answer %s", answer)
					}
					mu.Lock()
					counts[status]++
					mu.Unlock()
				}
			})
		}
		all.Wait()
		return counts
	}
	goroutines := runtime.NumGoroutine()
	run(1, 1_000) // fills what is kept for the next request
	before := memory()
	counts := run(2, bodies)
	after := memory()
	t.Logf("figure malformed-bodies: %d sent, answers %v, heap %d KiB before and %d KiB after", bodies, counts, before>>10, after>>10)
	if after > before+2<<20 {
		t.Errorf("%d bytes were in use, and %d after", before, after)
	}
	// A server waits a little before it closes a connection whose body it has
	// not read to the end.
	transport.CloseIdleConnections()
	testenv.Eventually(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines })
	if counts[400] < bodies/2 || counts[413] == 0 || counts[403] == 0 {
		t.Errorf("not all was tried: %v", counts)
	}
}

func send(t *testing.T, browser *http.Client, url, body string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := browser.Do(request)
	if err != nil {
		// A server that refuses a body unread may close before it is written.
		if len(body) > 256<<10 {
			return http.StatusRequestEntityTooLarge, nil
		}
		t.Errorf("%s %.100q: %v", url, body, err)
		return http.StatusBadRequest, nil
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response.StatusCode, answer
}

// The read timeout ends requests whose body stops, with a 4xx.
func TestCheck_SlowBodies(t *testing.T) {
	d := newDesk(t, newStore(t))
	server := serve(t, d, time.Second)
	var all sync.WaitGroup
	for caller := range 40 {
		all.Go(func() {
			conn, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			body := good["/v1/check"]
			chunked := caller%2 == 1
			head := fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:caller])
			if chunked {
				head = fmt.Sprintf("POST /v1/check HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s", len(body), body[:caller])
			}
			_, _ = io.WriteString(conn, head)
			_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			answer, err := io.ReadAll(conn) // until the server closes it
			if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 4")) {
				t.Errorf("%.100q, %v", answer, err)
			}
		})
	}
	all.Wait()
}
