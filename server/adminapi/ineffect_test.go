package adminapi_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

// While the source is unavailable, reads answer with the rules in effect, and say so.
func TestRead_InEffect(t *testing.T) {
	var log testenv.LogBuffer
	source := &leaving{Source: memrules.New(memrules.Config{})}
	r := start(t, listening(&log), func(s *settings) { s.source = source })
	r.create(t, mine, setOf("mine", 5))
	r.create(t, "/v1/rule-sets/other", setOf("other", 5))
	for _, id := range []string{"mine", "other"} {
		r.send(t, http.MethodPost, "/v1/rule-sets/"+id+"/effective", `{}`).want(t, http.StatusOK) // loads it
	}
	paths := []string{mine, mine + "/rules", mine + "/rules/mine-0"}
	before := map[string]answer{}
	for _, path := range paths {
		before[path] = r.send(t, http.MethodGet, path, "").want(t, http.StatusOK)
		if from := before[path].header.Get(admin.FromHeader); from != "" {
			t.Errorf("%s is from %q while the source answers", path, from)
		}
	}
	source.gone.Store(true)
	for _, path := range paths {
		got := r.send(t, http.MethodGet, path, "").want(t, http.StatusOK)
		if got.header.Get(admin.FromHeader) != "memory" || got.body != before[path].body || got.header.Get("ETag") != `"1"` {
			t.Errorf("%s: %v %s, want %s", path, got.header, got.body, before[path].body)
		}
	}
	if n := len(log.Lines("the rules in effect")); n != 1 {
		t.Errorf("the log has %d lines about it", n)
	}
	r.send(t, http.MethodGet, mine+"/rules/no-such-rule", "").want(t, http.StatusNotFound)
	for token, want := range map[string]string{tokenRead: "mine other", tokenOne: "mine"} {
		var list admin.Entries
		got := r.send(t, http.MethodGet, "/v1/rule-sets", "", "Authorization", "Bearer "+token).want(t, http.StatusOK)
		got.into(t, &list)
		var ids []string
		for _, e := range list.RuleSets {
			ids = append(ids, e.RuleSetID)
		}
		if strings.Join(ids, " ") != want || got.header.Get(admin.FromHeader) != "memory" {
			t.Errorf("%s sees %q, %v", token, ids, got.header)
		}
	}
	if got := r.send(t, http.MethodPut, mine, setOf("mine", 6), "If-Match", `"1"`); got.status != http.StatusServiceUnavailable {
		t.Errorf("a change answers %d", got.status)
	}
}

// stuck is a source that does not answer.
type stuck struct{ *leaving }

func (s stuck) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	if s.gone.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.leaving.Revisions(ctx, ids)
}

// A source that does not answer delays reads of rules in memory by seconds only.
func TestRead_InEffectWhileStuck(t *testing.T) {
	source := stuck{&leaving{Source: memrules.New(memrules.Config{})}}
	r := start(t, func(s *settings) { s.source = source })
	r.create(t, mine, setOf("mine", 5))
	r.send(t, http.MethodPost, mine+"/effective", `{}`).want(t, http.StatusOK)
	source.gone.Store(true)
	begun := time.Now()
	got := r.send(t, http.MethodGet, mine, "").want(t, http.StatusOK)
	if took := time.Since(begun); took > 20*time.Second || got.header.Get(admin.FromHeader) != "memory" {
		t.Errorf("after %v: %v", took, got.header)
	}
}

// Invalid content of the source is shown as what is wrong with it, to those who repair it.
func TestRead_InvalidContent(t *testing.T) {
	source := &invalidated{Source: memrules.New(memrules.Config{})}
	r := start(t, func(s *settings) { s.source = source })
	r.create(t, mine, setOf("mine", 5))
	r.send(t, http.MethodPost, mine+"/effective", `{}`).want(t, http.StatusOK)
	source.invalid.Store(true)
	if got := r.send(t, http.MethodGet, mine, ""); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "is wrong") {
		t.Errorf("%d %v %s", got.status, got.header, got.body)
	}
}

// invalidated is a source whose content becomes invalid.
type invalidated struct {
	*memrules.Source
	invalid atomic.Bool
}

func (s *invalidated) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	if s.invalid.Load() {
		return nil, &rules.ValidationError{RuleSetID: "mine", Problems: []rules.Problem{{Code: rules.CodeOutOfRange, Message: "is wrong"}}}
	}
	return s.Source.Revisions(ctx, ids)
}
