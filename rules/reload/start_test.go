package reload_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/rules/reload"
)

const goodRules = "id: api-limits\nrules:\n  - id: everyone\n    bands:\n      - { capacity: 2, refill: 1h }\n"

// rulesFile returns a source of a file with this content; "" means no file.
func rulesFile(t *testing.T, content string) *filerules.Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if content != "" {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source, err := filerules.Open(path, filerules.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// Start fails without rules and returns why, unless StartWithoutRules is set.
func TestStart_NoRules(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	for _, c := range []struct{ name, content, want string }{
		{"missing file", "", "no such file"},
		{"misspelled rule set", strings.Replace(goodRules, "api-limits", "api-limit", 1), `rule set "api-limits": not found`},
		{"malformed rule", strings.Replace(goodRules, "2", "two", 1), "capacity: must be a whole number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := rulesFile(t, c.content)
			config := reload.Config{RuleSets: []string{"api-limits"}, Interval: never, Copies: t.TempDir(), Logger: quiet}
			r, err := reload.Start(t.Context(), source, config)
			if err == nil {
				_ = r.Close()
				t.Fatal("it started without rules")
			}
			if text := err.Error(); !strings.Contains(text, c.want) || !strings.Contains(text, `"api-limits"`) {
				t.Errorf("error %q, want one about %q", text, c.want)
			}
			config.StartWithoutRules = true
			if got := capacity(t, start(t, source, config), "api-limits"); got != 0 {
				t.Errorf("started without rules, but has a capacity of %d", got)
			}
		})
	}
	if _, err := reload.Start(t.Context(), rulesFile(t, goodRules), reload.Config{RuleSets: []string{"other"}, Logger: quiet}); !errors.Is(err, rules.ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
}

// An engine is not created for a rule set that does not exist, even if Start was
// not configured to load it.
func TestStart_MissingRuleSet(t *testing.T) {
	config := reload.Config{Interval: never, FirstWait: time.Minute, Logger: slog.New(slog.DiscardHandler)}
	r := start(t, rulesFile(t, goodRules), config)
	if _, err := fluxgate.New(newStore(t), r, fluxgate.WithRuleSet("api-limit")); !errors.Is(err, rules.ErrNotFound) {
		t.Errorf("engine of a misspelled rule set: error %v, want ErrNotFound", err)
	}
	if _, err := fluxgate.New(newStore(t), r, fluxgate.WithRuleSet("api-limits")); err != nil {
		t.Error(err)
	}
	config.StartWithoutRules = true
	without := start(t, rulesFile(t, ""), config)
	if _, err := fluxgate.New(newStore(t), without, fluxgate.WithRuleSet("api-limits")); err != nil {
		t.Error(err)
	}
}

// Without a configured logger, slog's default is used.
func TestStart_DefaultLogger(t *testing.T) {
	var written bytes.Buffer
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&written, nil)))
	r, err := reload.Start(t.Context(), rulesFile(t, goodRules), reload.Config{RuleSets: []string{"api-limits"}, Interval: never})
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	if !strings.Contains(written.String(), "ruleSet=api-limits") {
		t.Errorf("slog's default logger has only %q", written.String())
	}
}

// With StartWithoutRules a source that hangs delays a start by FirstWait at most.
func TestStart_SourceHangs(t *testing.T) {
	source := newStubSource()
	put(t, source, "set", 7)
	source.failWith(hang)
	begun := time.Now()
	r := start(t, source, reload.Config{
		RuleSets: []string{"set"}, Interval: 20 * time.Millisecond, FirstWait: 10 * time.Millisecond, Timeout: time.Minute, StartWithoutRules: true,
	})
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	source.failWith(nil)
	until(t, "the rule set is there", func() bool { return capacity(t, r, "set") == 7 })
}
