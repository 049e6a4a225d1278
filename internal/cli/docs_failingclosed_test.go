package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// passes reports whether a request of the rule with onFailure closed passes.
func (i *incident) passes(t *testing.T) bool {
	t.Helper()
	code, out, errs := call(t, "check", "--server", "http://"+i.http, "--user", "ada", "--path", "/paid")
	if code != exitOK && code != exitRejected {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	return code == exitOK
}

// Step 2 of the runbook of FluxgateFailingClosed works while Redis is away, wherever the rules are.
func TestRunbook_FailingClosed(t *testing.T) {
	testenv.SkipShort(t)
	open := strings.NewReplacer("onFailure: closed", "onFailure: open", `"onFailure":"closed"`, `"onFailure":"open"`)
	section := readFile(t, "docs/runbooks.md")
	for _, part := range []string{"- `file`: edit the file", "- `mongo`: `fluxgate rules get api-limits > rules.yaml`, edit, `fluxgate rules apply -f rules.yaml`", "`document` in `api-limits.rules.json` below `rules.copies`"} {
		if !strings.Contains(section, part) {
			t.Errorf("the runbook does not have %q, which this test does", part)
		}
	}
	t.Run("file", func(t *testing.T) {
		i := &incident{}
		redisKilled(t, i)
		i.rejects(t)
		write(t, filepath.Dir(i.setting("rules.file")), "rules.yaml", open.Replace(incidentRules))
		testenv.Eventually(t, "requests pass", func() bool { return i.passes(t) })
	})
	t.Run("mongo", func(t *testing.T) {
		i := &incident{redis: testenv.StartStandalone(t, testenv.Config{})}
		i.start(t, "rules.file=", "rules.source=mongo", "mongo.enabled=true", "mongo.uri="+testenv.SharedMongo(t).URI(), "mongo.database=failing-closed")
		folder := t.TempDir()
		apply := func(text string) {
			t.Helper()
			file := write(t, folder, "rules.yaml", text)
			if code, out, errs := call(t, "rules", "apply", "-f", file, "--yes", "--server", "http://"+i.admin); code != exitOK {
				t.Fatalf("exit code %d\n%s%s", code, out, errs)
			}
		}
		apply(incidentRules)
		if err := i.redis.Kill(); err != nil {
			t.Fatal(err)
		}
		i.rejects(t)
		code, out, errs := call(t, "rules", "get", "api-limits", "--server", "http://"+i.admin)
		if code != exitOK || !strings.Contains(out, "onFailure: closed") {
			t.Fatalf("exit code %d\n%s%s", code, out, errs)
		}
		apply(open.Replace(out))
		testenv.Eventually(t, "requests pass", func() bool { return i.passes(t) })
	})
	t.Run("redis", func(t *testing.T) {
		i, copies := &incident{}, t.TempDir()
		rulesInRedis(t, i, "rules.copies="+copies)
		copied := filepath.Join(copies, "api-limits.rules.json")
		testenv.Eventually(t, "there is a copy", func() bool { _, err := os.Stat(copied); return err == nil })
		if err := i.redis.Kill(); err != nil {
			t.Fatal(err)
		}
		i.rejects(t)
		if code, out, _ := call(t, "rules", "get", "api-limits", "--server", "http://"+i.admin); code == exitOK {
			t.Errorf("rules in a Redis that is away can be read, and the runbook denies it:\n%s", out)
		}
		text, err := os.ReadFile(copied)
		var content struct{ Document json.RawMessage }
		if err = errors.Join(err, json.Unmarshal(text, &content)); err != nil {
			t.Fatal(err)
		}
		file := write(t, t.TempDir(), "rules.json", open.Replace(string(content.Document)))
		again := &incident{redis: i.redis}
		again.start(t, "rules.file="+file)
		testenv.Eventually(t, "requests pass", func() bool { return again.passes(t) })
	})
}

// rejects waits until requests are rejected because Redis is away.
func (i *incident) rejects(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, "requests are rejected", func() bool { return !i.passes(t) })
}
