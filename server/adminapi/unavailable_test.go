package adminapi_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
	"github.com/fluxgate/fluxgate/server/audit"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// errAway is in the log, and not in answers.
var errAway = errors.New("dial tcp 10.11.12.13:27017: connection refused")

// leaving is a source that becomes unavailable.
type leaving struct {
	*memrules.Source
	gone atomic.Bool
}

func (l *leaving) err() error {
	if l.gone.Load() {
		return errAway
	}
	return nil
}

func (l *leaving) Revisions(ctx context.Context, ids []string) (map[string]rules.Head, error) {
	if err := l.err(); err != nil {
		return nil, err
	}
	return l.Source.Revisions(ctx, ids)
}

func (l *leaving) List(ctx context.Context, after string, limit int) ([]rules.Entry, error) {
	if err := l.err(); err != nil {
		return nil, err
	}
	return l.Source.List(ctx, after, limit)
}

func (l *leaving) History(ctx context.Context, id string, before int64, limit int) ([]rules.Entry, error) {
	if err := l.err(); err != nil {
		return nil, err
	}
	return l.Source.History(ctx, id, before, limit)
}

func (l *leaving) Version(ctx context.Context, id string, revision int64) (*rules.Version, error) {
	if err := l.err(); err != nil {
		return nil, err
	}
	return l.Source.Version(ctx, id, revision)
}

// closedStore is an unavailable store.
type closedStore struct{ store.Store }

func (closedStore) Peek(context.Context, []store.Demand, *store.Outcome) error { return errAway }
func (closedStore) Reset(context.Context, store.Reset) (bool, error)           { return false, errAway }

// The error of an unavailable source or store is logged and not sent to the caller.
func TestUnavailable_DetailsInLog(t *testing.T) {
	var log testenv.LogBuffer
	source := &leaving{Source: memrules.New(memrules.Config{})}
	inner, err := memstore.New(memstore.Config{})
	do(t, err)
	r := start(t, listening(&log), func(s *settings) { s.source, s.store = source, closedStore{inner} })
	r.create(t, mine, setOf("mine", 5))
	r.send(t, http.MethodPost, mine+"/effective", `{}`).want(t, http.StatusOK) // loads it
	source.gone.Store(true)
	asked := 0
	for path, body := range map[string]string{
		"GET /v1/rule-sets/other": "", "GET /v1/rule-sets/other/rules": "", "GET /v1/rule-sets/other/rules/a": "", "GET " + mine + "/revisions": "",
		"GET " + mine + "/revisions/1": "", "GET " + mine + "/diff": "",
		"PUT " + mine: setOf("mine", 6), "DELETE " + mine: "", "PUT " + mine + "/rules/new": ruleOf("new", 5), "PUT " + mine + "/rules/mine-0": ruleOf("mine-0", 6),
		"DELETE " + mine + "/rules/mine-0": "", "POST " + mine + "/revisions/1/restore": "",
		"POST " + mine + "/buckets/peek": `{"request":{}}`, "POST " + mine + "/buckets/reset": `{"all":true}`,
	} {
		method, path, _ := strings.Cut(path, " ")
		got := r.send(t, method, path, body, "If-Match", `"1"`).want(t, http.StatusServiceUnavailable)
		if p := got.problem(t); p.Kind != admin.KindUnavailable || !strings.Contains(p.Detail, "log") || strings.Contains(got.body, "10.11.12.13") {
			t.Errorf("%s %s: %s", method, path, got.body)
		}
		asked++
		if n := strings.Count(log.String(), "10.11.12.13"); n != asked {
			t.Errorf("%s %s: the log has %d failures, want %d", method, path, n, asked)
		}
		if last := r.lastRecord(t); (method == http.MethodPut || method == http.MethodDelete) && (last.Outcome != audit.Failed || last.Status != http.StatusServiceUnavailable || last.Before != 1) {
			t.Errorf("%s %s: the audit has %+v", method, path, last)
		}
	}
	// Without its store a decision is degraded.
	if d := r.explain(t, "mine", `{}`).Decision; !d.Degraded {
		t.Errorf("without a store the decision is %+v", d)
	}
}
