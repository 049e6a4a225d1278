package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childSettings) != "" {
		runChild()
	}
	goleak.VerifyTestMain(testenv.Suite{M: m})
}

// shortTimeout is the default of a server.
const shortTimeout = "redis.timeout=100ms"

// running is a server that answers.
type running struct {
	*server.App
	url    string
	stop   context.CancelFunc
	ended  chan error
	client *http.Client
}

// rulesFile has one rule set of one rule for every user.
func rulesFile(t testing.TB, capacity int) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	writeRules(t, file, capacity)
	return file
}

func writeRules(t testing.TB, file string, capacity int) {
	t.Helper()
	write(t, file, fmt.Sprintf(`id: api-limits
rules:
  - {id: everyone, limitScope: USER_ID, bands: [{label: hourly, capacity: %d, refill: 1h}]}
  - {id: denied, path: /denied, action: deny, priority: 9}
`, capacity))
}

func write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start runs a server on free ports with these settings.
func start(t testing.TB, set ...string) *running {
	t.Helper()
	return startWith(t, config.Sources{}, server.Options{Version: "test"}, set...)
}

// startLogged is start with what the server logs.
func startLogged(t testing.TB, set ...string) (*running, *testenv.LogBuffer) {
	t.Helper()
	log := new(testenv.LogBuffer)
	logger, err := telemetry.NewLogger(log, "text", "info")
	if err != nil {
		t.Fatal(err)
	}
	return startWith(t, config.Sources{}, server.Options{Version: "test", Logger: logger}, set...), log
}

func startWith(t testing.TB, from config.Sources, options server.Options, set ...string) *running {
	t.Helper()
	// Redis is slower on a busy machine. Tests that wait for the timeout set shortTimeout.
	set = append([]string{"server.http=127.0.0.1:0", "server.admin=127.0.0.1:0", "server.drain.delay=0s", "mongo.enabled=false", "reload.polling-interval=100ms", "reload.jitter=0s", "redis.timeout=5s"}, set...)
	from.Set = set
	c, err := config.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	app, err := server.New(t.Context(), c, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{
		App: app, url: "http://" + app.Addr("http"), stop: stop, ended: make(chan error, 1),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}, Timeout: 30 * time.Second},
	}
	go func() { r.ended <- app.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		r.client.CloseIdleConnections()
		if err, open := <-r.ended; open && err != nil {
			t.Errorf("the server ended with %v", err)
		}
		close(r.ended)
	})
	return r
}

// end stops the server and waits for it.
func (r *running) end(t testing.TB) {
	t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	r.ended <- nil
}

type answer struct {
	status int
	header http.Header
	body   string
}

// object is the body as JSON.
func (a answer) object(t testing.TB) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(a.body), &o); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return o
}

func (r *running) do(t testing.TB, method, path, body string, headers ...string) answer {
	t.Helper()
	url := path
	if strings.HasPrefix(path, "/") {
		url = r.url + path
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, res.Body); err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, b.String()}
}

// check decides a request of a user and returns the decision.
func (r *running) check(t testing.TB, user string) map[string]any {
	t.Helper()
	a := r.do(t, http.MethodPost, "/v1/check", `{"userId":"`+user+`","path":"/orders"}`)
	if a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return a.object(t)
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
