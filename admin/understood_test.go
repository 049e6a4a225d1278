package admin_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

// A rule is not written while a server does not understand it, unless the change is forced or the
// rule set needed the same before.
func TestChange_NotUnderstood(t *testing.T) {
	d := admin.NewDirect(memrules.New(memrules.Config{}), nil, "")
	var fleet []admin.Server
	d.Fleet = func(context.Context) []admin.Server { return fleet }
	revision := int64(0)
	put := func(capacity int64, force bool) error {
		set, err := rules.NewSet("set", rules.Rule{ID: "a", Until: time.Unix(2e9, 0), Bands: []rules.Band{rules.PerHour(capacity)}})
		if err != nil {
			t.Fatal(err)
		}
		done, err := d.Change(t.Context(), "set", rules.Change{Base: revision, Author: "ada", Force: force},
			func(*rules.Set) (*rules.Set, error) { return set, nil })
		if err == nil {
			revision = done.Revision
		}
		return err
	}
	fleet = []admin.Server{{Name: "new", Understands: rules.Understood()}, {Name: "old", Version: "v1.2.3"}}
	err := put(1, false)
	var problem *admin.Problem
	if !errors.As(err, &problem) || problem.Status != http.StatusConflict || !strings.Contains(problem.Detail, "server old (version v1.2.3) does not understand until") {
		t.Errorf("a new field: %v, want a refusal that names the server", err)
	}
	if err := put(1, true); err != nil {
		t.Errorf("forced: %v", err)
	}
	if err := put(2, false); err != nil {
		t.Errorf("a rule set that needed it before: %v", err)
	}
	fleet = fleet[:1]
	revision, d.Editor = 0, memrules.New(memrules.Config{})
	if err := put(1, false); err != nil {
		t.Errorf("after the upgrade: %v", err)
	}
}
