package admin_test

import (
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// A write removes overrides that have ended a week ago, and no others.
func TestPutOverrides_RemovesEnded(t *testing.T) {
	d := newDesk(t)
	ctx := t.Context()
	_, err := d.client.Put(ctx, setOf(t, "mine", 5), by(0, ""))
	do(t, err)
	v, err := d.client.Load(ctx, "mine")
	do(t, err)
	rule := v.RuleSet.At(0).ID
	override := func(user string, ended time.Duration) rules.Override {
		o := rules.Override{RuleSetID: "mine", RuleID: rule, Identity: map[string]string{"userId": user}, Times: 2_000}
		if ended != 0 {
			o.Until = time.Now().Add(-ended)
		}
		return o
	}
	const week = 7 * 24 * time.Hour
	_, err = d.rules.PutOverrides(ctx, "mine", []rules.Override{
		override("long", week+time.Hour), override("lately", week-time.Hour), override("later", -time.Hour), override("never", 0),
	})
	do(t, err)
	_, err = d.client.PutOverrides(ctx, "mine", []rules.Override{override("never", 0)}, true)
	do(t, err)
	if page, err := d.client.ListOverrides(ctx, "mine", "", 0); err != nil || len(page.Overrides) != 4 {
		t.Errorf("after a dry run there are %d (%v)", len(page.Overrides), err)
	}
	_, err = d.client.PutOverrides(ctx, "mine", []rules.Override{override("long", 0)}, false)
	do(t, err)
	page, err := d.client.ListOverrides(ctx, "mine", "", 0)
	do(t, err)
	for i, user := range []string{"lately", "later"} {
		if len(page.Overrides) != 4 || page.Overrides[i].Identity["userId"] != user {
			t.Errorf("there are %+v", page.Overrides)
		}
	}
}
