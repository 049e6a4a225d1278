package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// incident is a server in the state that an alert is about.
type incident struct {
	settings    []string
	admin, http string
	redis       *testenv.Server
}

const (
	incidentRules = `id: api-limits
rules:
  - {id: per-user, limitScope: USER_ID, bands: [{label: hourly, capacity: 3, refill: 1h}]}
  - {id: paid, path: /paid, limitScope: USER_ID, onFailure: closed, bands: [{label: hourly, capacity: 3, refill: 1h}]}
`
	// notRun are commands of the machine that a test cannot ask.
	notRun = "journalctl ss df"
)

// start starts a Redis and a server with rules in a file, and some settings more.
func (i *incident) start(t *testing.T, settings ...string) {
	t.Helper()
	if i.redis == nil {
		i.redis = testenv.StartStandalone(t, testenv.Config{})
	}
	i.settings = append([]string{
		"redis.uri=" + i.redis.URI(), "mongo.enabled=false", "rules.file=" + write(t, t.TempDir(), "rules.yaml", incidentRules), "wait-for-refill.enabled=true",
		"reload.polling-interval=100ms", "reload.jitter=0s", "server.grpc=127.0.0.1:0",
	}, settings...)
	i.admin, i.http = serveWith(t, i.settings...)
	i.settings = append(i.settings, "server.http="+i.http, "server.admin="+i.admin, "server.grpc=")
}

// setting is the last value of a setting.
func (i *incident) setting(key string) (value string) {
	for _, s := range i.settings {
		if v, ok := strings.CutPrefix(s, key+"="); ok {
			value = v
		}
	}
	return value
}

// incidents bring a server into the state of an alert. Alerts that are not here are
// about a server that works.
var incidents = map[string]func(*testing.T, *incident){
	"FluxgateDown": func(t *testing.T, i *incident) {
		i.redis = testenv.StartStandalone(t, testenv.Config{})
		i.admin, i.http = testenv.FreeAddr(t), testenv.FreeAddr(t)
		i.settings = []string{"redis.uri=" + i.redis.URI(), "mongo.enabled=false", "rules.file=" + t.TempDir() + "/none.yaml", "server.http=" + i.http}
	},
	"FluxgateDegraded": redisKilled, "FluxgateFailingClosed": redisKilled, "FluxgateServerErrors": redisKilled,
	"FluxgateStoreDown": func(t *testing.T, i *incident) { // accepts connections, and never answers
		i.start(t)
		if err := i.redis.Freeze(); err != nil {
			t.Fatal(err)
		}
	},
	"FluxgateStoreFailing": func(t *testing.T, i *incident) {
		i.start(t, "redis.leases=off")
		if _, err := i.redis.Do(t.Context(), "CONFIG", "SET", "maxmemory", "1"); err != nil {
			t.Fatal(err)
		}
	},
	"FluxgateRulesError": func(t *testing.T, i *incident) {
		i.start(t)
		write(t, filepath.Dir(i.setting("rules.file")), "rules.yaml", strings.Replace(incidentRules, "capacity: 3", "capacity: 0", 1))
	},
	"FluxgateRulesStale": func(t *testing.T, i *incident) {
		rulesInRedis(t, i)
		if err := i.redis.Kill(); err != nil {
			t.Fatal(err)
		}
	},
	"FluxgateRulesFromCopy": func(t *testing.T, i *incident) {
		copies := "rules.copies=" + t.TempDir()
		t.Run("with its source", func(t *testing.T) { rulesInRedis(t, i, copies) })
		i.redis = testenv.StartStandalone(t, testenv.Config{})
		if err := i.redis.Kill(); err != nil {
			t.Fatal(err)
		}
		i.start(t, "rules.source=redis", "rules.file=", copies)
	},
	"FluxgateRuleSetMissing": func(t *testing.T, i *incident) { i.start(t, "ratelimit.default-rule-set-id=other") },
	"FluxgateConnectionsSaturated": func(t *testing.T, i *incident) {
		i.start(t, "server.max-connections=10")
		for range 12 {
			conn, err := net.Dial("tcp", i.http)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if _, err := fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", i.http); err != nil { // an idle connection is kept
				t.Fatal(err)
			}
		}
	},
	"FluxgateStoreMisconfigured": func(t *testing.T, i *incident) {
		i.start(t)
		if _, err := i.redis.Do(t.Context(), "CONFIG", "SET", "maxmemory-policy", "allkeys-lru"); err != nil {
			t.Fatal(err)
		}
	},
	"FluxgateAuditBroken": func(t *testing.T, i *incident) {
		file := filepath.Join(t.TempDir(), "audit.jsonl")
		rulesInRedis(t, i, "server.audit.file="+file)
		if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(file) })                                        // or the server does not end well
		call(t, "rules", "delete", "api-limits", "--yes", "--server", "http://"+i.admin) // cannot be recorded
	},
}

func redisKilled(t *testing.T, i *incident) {
	i.start(t)
	if err := i.redis.Kill(); err != nil {
		t.Fatal(err)
	}
}

// rulesInRedis starts a server whose rules are in Redis.
func rulesInRedis(t *testing.T, i *incident, settings ...string) {
	t.Helper()
	i.redis = testenv.StartStandalone(t, testenv.Config{})
	i.start(t, append([]string{"rules.source=redis", "rules.file="}, settings...)...)
	file := write(t, t.TempDir(), "rules.yaml", incidentRules)
	if code, _, errs := call(t, "rules", "apply", "-f", file, "--yes", "--server", "http://"+i.admin); code != exitOK {
		t.Fatal(errs)
	}
}

// load sends requests until the test ends: states show only while there are some.
func (i *incident) load(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ctx.Err() == nil; n++ {
			body := fmt.Sprintf(`{"userId": "ada", "path": %q}`, []string{"/api/orders", "/paid"}[n%2])
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+i.http+"/v1/check", strings.NewReader(body))
			if err != nil {
				return
			}
			req.Header.Set("Content-Type", "application/json")
			if res, err := http.DefaultClient.Do(req); err == nil {
				_ = res.Body.Close()
			}
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond): // the pace of the requests
			}
		}
	}()
	t.Cleanup(func() { stop(); <-ended; http.DefaultClient.CloseIdleConnections() })
}

var (
	runbookRow = regexp.MustCompile("(?m)^\\| `(.+?)` \\| (.+) \\|$")
	anySpan    = regexp.MustCompile("`([^`]+)`")
)

// The commands of every runbook show what it says, against a server in that state.
// In the column "look for" every code span is part of the output.
func TestRunbooks_Commands(t *testing.T) {
	testenv.SkipShort(t)
	known := maps.Clone(incidents)
	for _, section := range strings.Split(readFile(t, "docs/runbooks.md"), "\n## Fluxgate")[1:] {
		name, rest, _ := strings.Cut(section, "\n")
		alert := "Fluxgate" + name
		_, table, _ := strings.Cut(rest, "\n| run | look for |\n|---|---|\n")
		table, _, _ = strings.Cut(table, "\n\n")
		rows := runbookRow.FindAllStringSubmatch(table, -1)
		if len(rows) != 3 {
			t.Errorf("the runbook of %s has %d commands, not 3", alert, len(rows))
		}
		state := known[alert]
		if delete(known, alert); state == nil {
			state = func(t *testing.T, i *incident) { i.start(t) }
		}
		t.Run(alert, func(t *testing.T) {
			t.Parallel()
			i := &incident{}
			state(t, i)
			i.load(t)
			folder := programFolder(t)
			for _, row := range rows {
				i.show(t, folder, strings.ReplaceAll(row[1], `\|`, "|"), anySpan.FindAllStringSubmatch(row[2], -1))
			}
		})
	}
	for alert := range known {
		t.Errorf("there is no runbook of %s", alert)
	}
}

// show runs a command until its output has all the texts. The command must end.
func (i *incident) show(t *testing.T, folder, command string, texts [][]string) {
	t.Helper()
	if program, _, _ := strings.Cut(command, " "); slices.Contains(strings.Fields(notRun), program) {
		return
	}
	command = strings.ReplaceAll(command, "localhost:8080", i.http)
	environ := append(os.Environ(), "PATH="+folder+":"+os.Getenv("PATH"), "FLUXGATE_ADMIN=http://"+i.admin, "REDIS="+i.redis.URI())
	for _, s := range i.settings { // in place of FLUXGATE_CONFIG
		key, value, _ := strings.Cut(s, "=")
		environ = append(environ, "FLUXGATE_"+strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))+"="+value)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	var out []byte
	var missing string
	shown := func() bool {
		cmd := exec.CommandContext(ctx, "bash", "-c", command)
		cmd.Dir, cmd.Env, cmd.WaitDelay = folder, environ, time.Second
		out, _ = cmd.CombinedOutput() // some commands fail in the state that they show
		for _, text := range texts {
			if missing = text[1]; !strings.Contains(string(out), missing) {
				return false
			}
		}
		return true
	}
	for !shown() && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Fatalf("%s\ndoes not end, or does not show %q:\n%s", command, missing, out)
	}
}
