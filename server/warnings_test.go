package server_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// An AI team: streams of a month's budget of 5 dollars settle, a signed warning comes at 80 %,
// once from two servers. Raised by an override, the next one comes at 80 % of the new budget.
// docs/llm.md verifies the signature with openssl.
func TestWarnings_Budget(t *testing.T) {
	testenv.SkipShort(t)
	type post struct {
		signature string
		body      []byte
	}
	posts := make(chan post, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		posts <- post{q.Header.Get("FluxGate-Signature"), body}
	}))
	t.Cleanup(hook.Close)
	folder := t.TempDir()
	secret, receipts := filepath.Join(folder, "webhook.key"), filepath.Join(folder, "receipts.key")
	write(t, secret, "4f0f7c0b7f3f4a54b7d1\n")
	write(t, receipts, "a secret of servers that share\n")
	settings := []string{
		"redis.uri=" + testenv.StartStandalone(t, testenv.Config{}).URI(), "rules.source=redis", "ratelimit.default-rule-set-id=llm",
		"settle.receipt-secret-file=" + receipts, "events.webhook=" + hook.URL + "/hidden", "events.secret-file=" + secret, "events.identities=true",
	}
	one, log := startLogged(t, settings...)
	two := start(t, settings...)
	operator, err := admin.NewClient("http://"+one.Addr("admin"), admin.ClientConfig{})
	if err != nil {
		t.Fatal(err)
	}
	sets, err := filerules.Parse("rules.yaml", []byte(`id: llm
rules:
  - {id: budget, cost: usd, limitScope: CUSTOM, compositeKeyFields: ["attr:team"], bands: [{label: month, kind: quota, capacity: 5 USD, period: month, warnAt: [80%]}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.Put(t.Context(), sets[0], rules.Change{}); err != nil {
		t.Fatal(err)
	}
	if err := two.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	// stream reserves ten cents, and settles what it has used, at the other server.
	from, to := connect(t, one.url), connect(t, two.url)
	stream := func(used int64) {
		t.Helper()
		d, err := from.Check(t.Context(), &fluxgate.Request{RuleSet: "llm", Attributes: map[string]string{"team": "search"}, Costs: map[string]int64{"usd": 100_000}})
		if err != nil || !d.Allowed || d.Degraded {
			t.Fatal(d, err)
		}
		if _, err := to.SettleUsage(t.Context(), d.Receipt(), &fluxgate.Usage{Costs: map[string]int64{"usd": used}}); err != nil {
			t.Fatal(err)
		}
		from, to = to, from
	}
	next := func(capacity, used float64, text string) {
		t.Helper()
		var got post
		select {
		case got = <-posts:
		case <-time.After(20 * time.Second):
			t.Fatal("no warning")
		}
		var event map[string]any
		if err := json.Unmarshal(got.body, &event); err != nil {
			t.Fatal(err)
		}
		if event["type"] != "limit.warning" || event["capacity"] != capacity || event["used"] != used || event["text"] != text ||
			!strings.Contains(event["identity"].(string), "search") {
			t.Errorf("posted %s", got.body)
		}
		verify(t, secret, got.signature, got.body)
	}
	for range 3 {
		stream(990_000)
	}
	if len(posts) > 0 {
		t.Fatal("a warning below 80 %")
	}
	stream(1_300_000)
	next(5e6, 4.27e6, "$4.27 of $5.00")
	raised, err := operator.PutOverrides(t.Context(), "llm", []rules.Override{{
		RuleSetID: "llm", RuleID: "budget", Identity: map[string]string{"attr:team": "search"}, Times: rules.Times(2_000), Reason: "contract",
	}}, false)
	if err != nil {
		t.Fatal(raised, err)
	}
	if err := two.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		stream(1_000_000)
	}
	time.Sleep(time.Second) // a warning would come within half of it
	if len(posts) > 0 {
		t.Fatal("a warning below 80 % of the new budget")
	}
	stream(1_000_000)
	next(1e7, 8.27e6, "$8.27 of $10.00")
	found, err := operator.Warnings(t.Context(), 10)
	if err != nil || len(found) != 2 || found[0].Capacity != 10_000_000 || found[1].Text != "$4.27 of $5.00" {
		t.Errorf("%+v, %v", found, err)
	}
	time.Sleep(time.Second) // another post would come within half of it
	if len(posts) > 0 {
		t.Errorf("posted again: %s", (<-posts).body)
	}
	if strings.Contains(log.String(), "hidden") {
		t.Error("the log shows the path of the webhook")
	}
}

// verify runs the script of docs/llm.md.
func verify(t *testing.T, secret, signature string, body []byte) {
	t.Helper()
	page, err := os.ReadFile("../docs/llm.md")
	if err != nil {
		t.Fatal(err)
	}
	script := regexp.MustCompile("(?s)```sh\n(# verify.sh .*?)```").FindSubmatch(page)
	if script == nil {
		t.Fatal("docs/llm.md has no verify.sh")
	}
	run := func(body []byte) string {
		file := filepath.Join(t.TempDir(), "body")
		write(t, file, string(body))
		out, _ := exec.CommandContext(t.Context(), "sh", "-c", string(script[1]), "verify.sh", secret, signature, file).CombinedOutput()
		return string(out)
	}
	if said := run(body); said != "genuine\n" {
		t.Errorf("%s of %s: %q", signature, body, said)
	}
	if said := run(bytes.Replace(body, []byte(`"percent":80`), []byte(`"percent":90`), 1)); said != "" {
		t.Errorf("a changed body: %q", said)
	}
}
