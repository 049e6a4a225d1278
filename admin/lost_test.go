package admin_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/redisrules"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

// forgetful is a source that has lost its history, with the current revision.
type forgetful struct{ *memrules.Source }

func (forgetful) Version(context.Context, string, int64) (*rules.Version, error) {
	return nil, rules.ErrNotFound
}

// A change of a part of a rule set whose current revision is lost is refused. The whole rule set can
// be replaced or deleted.
func TestDirect_ChangeOfLostBase(t *testing.T) {
	source := memrules.New(memrules.Config{})
	_, err := source.Put(t.Context(), setOf(t, "mine", 1, 2), by(0, ""))
	do(t, err)
	d := admin.NewDirect(forgetful{source}, nil, "")
	called := false
	part := func(before *rules.Set) (*rules.Set, error) {
		called = true
		return rules.WithRules(before, "mine")
	}
	if _, err := d.Change(t.Context(), "mine", by(1, ""), part); !errors.Is(err, admin.ErrLost) || called {
		t.Errorf("a change of a part: %v (the edit was called: %t)", err, called)
	}
	var conflict *admin.Conflict
	if _, err := d.Change(t.Context(), "mine", by(2, ""), part); !errors.As(err, &conflict) || called {
		t.Errorf("a change of another revision: %v", err)
	}
	if v, err := source.Load(t.Context(), "mine"); err != nil || v.Revision != 1 {
		t.Errorf("the refused changes made revision %d (%v)", v.Revision, err)
	}
	done, err := d.Replace(t.Context(), "mine", by(1, ""), edit(setOf(t, "mine", 3)))
	if err != nil || !done.Lost || done.Before != nil || done.Revision != 2 {
		t.Errorf("the rule set is replaced: %+v (%v)", done, err)
	}
	if _, err := d.Put(t.Context(), setOf(t, "mine", 4), by(2, "")); err != nil {
		t.Error(err)
	}
	if _, err := d.Delete(t.Context(), "mine", by(3, "")); err != nil {
		t.Error(err)
	}
}

// Without the history in Redis a PUT and a DELETE of one rule answer 409 and say what to do, and change
// nothing. A PUT of all rules repairs the rule set.
func TestRule_LostHistory(t *testing.T) {
	options, err := redis.ParseURL(testenv.StartStandalone(t, testenv.Config{}).URI())
	do(t, err)
	client := redis.NewClient(options)
	defer client.Close()
	source, err := redisrules.New(client, redisrules.Config{})
	do(t, err)
	_, err = source.Put(t.Context(), setOf(t, "mine", 1, 2, 3), by(0, ""))
	do(t, err)
	d := newDesk(t, source)
	do(t, client.Del(t.Context(), "fluxgate:{rules}:history:mine").Err())
	for method, body := range map[string]string{http.MethodPut: `{"id":"mine-0","bands":[{"capacity":5,"refill":"1h"}]}`, http.MethodDelete: ""} {
		for _, base := range []string{"*", `"1"`} {
			req, err := http.NewRequestWithContext(t.Context(), method, d.URL+"/v1/rule-sets/mine/rules/mine-0", strings.NewReader(body))
			do(t, err)
			req.Header.Set("If-Match", base)
			req.Header.Set("Authorization", "Bearer "+word)
			req.Header.Set("Content-Type", "application/json")
			answer, err := d.Server.Client().Do(req)
			do(t, err)
			text, err := io.ReadAll(answer.Body)
			do(t, err)
			do(t, answer.Body.Close())
			if answer.StatusCode != http.StatusConflict || !strings.Contains(string(text), "has lost the rules of the current revision") {
				t.Errorf("%s with If-Match %s: %d %s", method, base, answer.StatusCode, text)
			}
		}
	}
	if heads, err := source.Revisions(t.Context(), []string{"mine"}); err != nil || heads["mine"].Revision != 1 {
		t.Fatalf("the refused changes made %v (%v)", heads, err)
	}
	revision, err := d.client.Put(t.Context(), setOf(t, "mine", 1, 2, 7), by(1, ""))
	if v, failed := source.Load(t.Context(), "mine"); err != nil || failed != nil || revision != 2 || capacities(v.RuleSet) != "[1 2 7]" {
		t.Errorf("the repair makes revision %d (%v), and the rules %v (%v)", revision, err, v, failed)
	}
}
