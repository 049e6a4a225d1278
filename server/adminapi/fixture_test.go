package adminapi_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
	"github.com/fluxgate/fluxgate/server/access"
	"github.com/fluxgate/fluxgate/server/adminapi"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/server/telemetry"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// The tokens of the tests, by their roles.
const (
	tokenRead  = "token of a reader"
	tokenWrite = "token of a writer"
	tokenCheck = "token of a service"
	tokenOne   = "token of a writer of one rule set"
)

// rig is an API over rules and buckets in memory.
type rig struct {
	*httptest.Server
	api   *adminapi.API
	rules *memrules.Source
	op    *admin.Direct
	// engine decides with the same rules and buckets.
	engine    *fluxgate.Engine
	insight   *insight.Insight
	auditFile string
}

// settings are the settings that a test can change.
type settings struct {
	changed func() // called after a change
	server  config.Server
	// auditLog gets the audit, as a file does.
	auditLog *slog.Logger
	rate     int64
	// bodyTimeout bounds the reading of a body.
	bodyTimeout time.Duration
	source      rules.Editor
	store       store.Store
	fleet       func() (insight.Fleet, error)
	// log is that of the API.
	log *slog.Logger
}

func start(t testing.TB, change ...func(*settings)) *rig {
	t.Helper()
	s := settings{rate: 1_000_000, auditLog: slog.New(slog.DiscardHandler)}
	s.server.Auth.Tokens = []config.Token{
		token("reader", tokenRead, nil, config.RoleRead), token("writer", tokenWrite, nil, config.RoleWrite),
		token("service", tokenCheck, nil, config.RoleCheck), token("tenant", tokenOne, []string{"mine"}, config.RoleWrite),
	}
	r := &rig{rules: memrules.New(memrules.Config{}), auditFile: filepath.Join(t.TempDir(), "audit.jsonl")}
	s.source = r.rules
	for _, f := range change {
		f(&s)
	}
	guard, err := access.New(&s.server, nil)
	do(t, err)
	log, err := audit.New(r.auditFile, s.auditLog)
	do(t, err)
	if s.store == nil {
		s.store, err = memstore.New(memstore.Config{})
		do(t, err)
	}
	overrides := fluxgate.NewOverrides(s.store, 0)
	loaded, err := reload.Start(t.Context(), s.source, reload.Config{Strategy: reload.Polling, FirstWait: time.Minute, Overrides: overrides})
	do(t, err)
	t.Cleanup(func() { do(t, loaded.Close()) })
	recorder := insight.NewRecorder(insight.RecorderConfig{Engine: func() *fluxgate.Engine { return r.engine }})
	r.insight = insight.New(recorder, insight.Config{Fleet: s.fleet})
	r.engine, err = fluxgate.New(s.store, loaded, fluxgate.WithObserver(telemetry.New(telemetry.Config{Recorder: recorder})), fluxgate.WithOnFailure(rules.FailClosed), fluxgate.WithOverrides(overrides))
	do(t, err)
	r.op = admin.NewDirect(s.source, func() *fluxgate.Engine { return r.engine }, "")
	r.op.Fleet = func(ctx context.Context) []admin.Server { return r.insight.Fleet(ctx, insight.Everything()).Servers }
	r.api, err = adminapi.New(adminapi.Config{
		Operator: r.op, Guard: guard, Audit: log, Rate: s.rate, BodyTimeout: s.bodyTimeout, Insight: r.insight, InEffect: loaded, Logger: s.log,
		Changed: func(q *http.Request, _ string) {
			_ = loaded.Reload(q.Context())
			if s.changed != nil {
				s.changed()
			}
		},
	})
	do(t, err)
	r.Server = httptest.NewServer(r.api)
	t.Cleanup(r.Close)
	return r
}

// records returns the records of the audit, oldest first.
func (r *rig) records(t testing.TB) []audit.Record {
	t.Helper()
	f, err := os.Open(r.auditFile)
	do(t, err)
	defer f.Close()
	var all []audit.Record
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var record audit.Record
		do(t, json.Unmarshal(lines.Bytes(), &record))
		all = append(all, record)
	}
	do(t, lines.Err())
	return all
}

// lastRecord returns the last record of the audit.
func (r *rig) lastRecord(t testing.TB) audit.Record {
	t.Helper()
	all := r.records(t)
	if len(all) == 0 {
		t.Fatal("the audit is empty")
	}
	return all[len(all)-1]
}

func token(name, value string, ruleSets []string, roles ...config.Role) config.Token {
	sum := sha256.Sum256([]byte(value))
	return config.Token{Name: name, SHA256: config.Hash(hex.EncodeToString(sum[:])), Roles: roles, RuleSets: ruleSets}
}

func do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// answer is an answer of the API.
type answer struct {
	status int
	header http.Header
	body   string
}

// send sends a request as a writer, unless a header overrides that. Headers are name
// and value pairs.
func (r *rig) send(t testing.TB, method, path, body string, headers ...string) answer {
	t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	q, err := http.NewRequestWithContext(t.Context(), method, r.URL+path, reader)
	do(t, err)
	q.Header.Set("Authorization", "Bearer "+tokenWrite)
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		q.Header.Set(headers[i], headers[i+1])
	}
	response, err := r.Client().Do(q)
	do(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	do(t, err)
	return answer{response.StatusCode, response.Header, string(text)}
}

// want checks the status.
func (a answer) want(t testing.TB, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("answers %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// into decodes the body.
func (a answer) into(t testing.TB, to any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader([]byte(a.body)))
	if err := dec.Decode(to); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
}

// problem decodes the body of an error.
func (a answer) problem(t testing.TB) admin.Problem {
	t.Helper()
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("the content type of an error is %q: %s", got, a.body)
	}
	var p admin.Problem
	a.into(t, &p)
	return p
}
