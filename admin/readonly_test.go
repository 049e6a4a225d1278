package admin_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// folder returns a folder with a file for each rule set, with the given capacities.
func folder(t testing.TB, sets map[string]int) (string, rules.Editor) {
	t.Helper()
	dir := t.TempDir()
	for id, capacity := range sets {
		write(t, dir, id, capacity)
	}
	files, err := filerules.Open(dir, filerules.Config{Settle: time.Millisecond})
	do(t, err)
	return dir, admin.ReadOnly(files)
}

func write(t testing.TB, dir, id string, capacity int) {
	t.Helper()
	text := fmt.Sprintf("id: %s\nrules:\n  - id: %[1]s-0\n    limitScope: USER_ID\n    bands:\n      - {label: day, capacity: %d, refill: 24h}\n", id, capacity)
	do(t, os.WriteFile(filepath.Join(dir, id+".yaml"), []byte(text), 0o600))
}

// Files can be read but not edited.
func TestReadOnly_Files(t *testing.T) {
	dir, files := folder(t, map[string]int{"b": 2, "a": 1, "c": 3})
	ctx := t.Context()
	v, err := files.Load(ctx, "a")
	if err != nil || capacities(v.RuleSet) != "[1]" {
		t.Fatalf("loaded %+v (%v)", v, err)
	}
	for _, c := range []struct {
		after string
		limit int
		want  string
	}{{"", 0, "a b c "}, {"", 2, "a b "}, {"b", 2, "c "}, {"aa", 2, "b c "}, {"c", 5, ""}, {"z", 5, ""}, {"A", 1, "a "}} {
		list, err := files.List(ctx, c.after, c.limit)
		do(t, err)
		got := ""
		for _, e := range list {
			got += e.RuleSetID + " "
			if e.Revision == 0 {
				t.Errorf("%s has no revision", e.RuleSetID)
			}
		}
		if got != c.want {
			t.Errorf("after %q at most %d: %s, want %s", c.after, c.limit, got, c.want)
		}
	}
	history, err := files.History(ctx, "a", 0, 10)
	if err != nil || len(history) != 1 || history[0].Revision != v.Revision {
		t.Errorf("the history is %+v (%v)", history, err)
	}
	if more, err := files.History(ctx, "a", v.Revision, 10); err != nil || len(more) != 0 {
		t.Errorf("the history before it is %+v (%v)", more, err)
	}
	if with, err := files.History(ctx, "a", v.Revision+1, 10); err != nil || len(with) != 1 {
		t.Errorf("the history up to it is %+v (%v)", with, err)
	}
	if none, err := files.History(ctx, "z", 0, 10); err != nil || len(none) != 0 {
		t.Errorf("an unknown rule set has the history %+v (%v)", none, err)
	}
	if same, err := files.Version(ctx, "a", v.Revision); err != nil || capacities(same.RuleSet) != "[1]" {
		t.Errorf("the current version is %+v (%v)", same, err)
	}
	for id, revision := range map[string]int64{"a": v.Revision + 1, "z": 1} {
		if _, err := files.Version(ctx, id, revision); !errors.Is(err, rules.ErrNotFound) {
			t.Errorf("another version of %s: %v", id, err)
		}
	}
	if _, err := files.Put(ctx, v.RuleSet, by(v.Revision, "")); !errors.Is(err, admin.ErrReadOnly) {
		t.Errorf("a change: %v", err)
	}
	if _, err := files.Delete(ctx, "a", by(v.Revision, "")); !errors.Is(err, admin.ErrReadOnly) {
		t.Errorf("a deletion: %v", err)
	}

	write(t, dir, "a", 9)
	if now, err := files.Load(ctx, "a"); err != nil || capacities(now.RuleSet) != "[9]" || now.Revision == v.Revision {
		t.Errorf("after an edit it is %+v (%v)", now, err)
	}
	do(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("id: ["), 0o600))
	for what, err := range map[string]error{
		"List":    func() error { _, err := files.List(ctx, "", 0); return err }(),
		"History": func() error { _, err := files.History(ctx, "a", 0, 0); return err }(),
		"Version": func() error { _, err := files.Version(ctx, "a", v.Revision); return err }(),
	} {
		if err == nil || errors.Is(err, rules.ErrNotFound) {
			t.Errorf("%s of an invalid file: %v", what, err)
		}
	}
}

// A server with rules in files serves reads and rejects changes.
func TestReadOnly_OverServer(t *testing.T) {
	_, files := folder(t, map[string]int{"mine": 5})
	d := newDesk(t, files)
	ctx := t.Context()
	v, err := d.client.Load(ctx, "mine")
	if err != nil || capacities(v.RuleSet) != "[5]" {
		t.Fatalf("loaded %+v (%v)", v, err)
	}
	_, put := d.client.Put(ctx, setOf(t, "mine", 6), by(v.Revision, ""))
	_, gone := d.client.Delete(ctx, "mine", by(v.Revision, ""))
	_, fresh := d.client.Put(ctx, setOf(t, "yours", 6), by(0, ""))
	for what, err := range map[string]error{"a change": put, "a deletion": gone, "a new one": fresh} {
		var p *admin.Problem
		if !errors.Is(err, admin.ErrReadOnly) || !errors.As(err, &p) || p.Status != 409 || p.Kind != admin.KindReadOnly {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, listed := d.client.ListOverrides(ctx, "mine", "", 0)
	_, written := d.client.PutOverrides(ctx, "mine", []rules.Override{{RuleID: "mine-0", Identity: map[string]string{"userId": "acme"}, Times: 3_000}}, false)
	for what, err := range map[string]error{"a list of overrides": listed, "a change of an override": written} {
		var p *admin.Problem
		if !errors.As(err, &p) || p.Status != 409 || !strings.Contains(p.Detail, "no overrides") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if revision, err := d.client.Put(ctx, v.RuleSet, by(v.Revision, "")); err != nil || revision != v.Revision {
		t.Errorf("a Put without changes makes revision %d (%v)", revision, err)
	}
	if e, err := d.client.Explain(ctx, &fluxgate.Request{RuleSet: "mine", UserID: "ann"}); err != nil || !e.Decision.Allowed {
		t.Errorf("the explanation is %+v (%v)", e, err)
	}
}
