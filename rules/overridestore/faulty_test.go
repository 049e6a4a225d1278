package overridestore_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/rulestest/memrules"
)

// faults are possible faults of a shared place, and the check that must detect each.
var faults = map[string]string{
	"restores what was deleted":             "what was lost comes back, and the highest revision wins",
	"takes the copy that is restored last":  "what was lost comes back, and the highest revision wins",
	"has the same epoch after each loss":    "what was lost comes back, and the highest revision wins",
	"loses what was restored before":        "what was lost comes back, and the highest revision wins",
	"takes changes of data that was lost":   "a change after a loss keeps what was lost",
	"restores the copy of one server alone": "a server that starts again restores",
	"knows nothing of forgotten deletions":  "an old copy restores nothing that was deleted",
}

// faultyPlace is a place with a fault.
type faultyPlace struct {
	*swapped
	fault    string
	restores int64
}

func (p *faultyPlace) is(fault string) bool { return p.fault == fault }

func (p *faultyPlace) BeginRestore(ctx context.Context, record rules.OverrideRecord) (rules.OverrideRecord, error) {
	if p.is("has the same epoch after each loss") {
		record.Epoch = "same"
	}
	return p.swapped.BeginRestore(ctx, record)
}

func (p *faultyPlace) PutSharedOverrides(
	ctx context.Context, record, next rules.OverrideRecord, ruleSet string, changes []rules.Override,
) (int64, error) {
	if p.is("takes changes of data that was lost") {
		if state, err := p.OverrideState(ctx, rules.WaitingRules{}); err == nil && state.Record == (rules.OverrideRecord{}) {
			next, record = record, state.Record
		}
	}
	return p.swapped.PutSharedOverrides(ctx, record, next, ruleSet, changes)
}

func (p *faultyPlace) RestoreOverrides(ctx context.Context, record rules.OverrideRecord, part *rules.OverrideCopy) error {
	p.restores++
	own := *part
	own.Overrides = nil
	for _, o := range part.Overrides {
		switch {
		case p.is("restores what was deleted") && o.Deleted:
			continue
		case p.is("takes the copy that is restored last"):
			o.Revision += p.restores * 1_000_000
		}
		own.Overrides = append(own.Overrides, o)
	}
	switch {
	case p.is("knows nothing of forgotten deletions"):
		own.Forgotten = 0
	case p.is("takes the copy that is restored last"):
		own.Revision += p.restores * 1_000_000
	case p.is("loses what was restored before") && own.First:
		now := p.now.Load()
		now.Clear(own.RuleSet)
	case p.is("restores the copy of one server alone"):
		if state, err := p.OverrideState(ctx, rules.WaitingRules{}); err == nil && len(state.Restored) > 0 {
			return nil
		}
	}
	return p.swapped.RestoreOverrides(ctx, record, &own)
}

// The checks detect faults.
func TestChecks_Faults(t *testing.T) {
	for fault, name := range faults {
		t.Run(fault, func(t *testing.T) {
			r := &recorder{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				m := &swapped{}
				m.swap()
				f := &fleet{TB: r, rules: memrules.New(memrules.Config{}), shared: &faultyPlace{swapped: m, fault: fault}, lose: m.swap}
				f.putRules(0, rule)
				checks[name](f)
			}()
			<-done
			if r.said == "" {
				t.Errorf("passes the check %q", name)
			}
			t.Log(r.said)
		})
	}
}

// recorder is a testing.TB that records the first failure.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Errorf(format string, args ...any) {
	if r.said == "" {
		r.said = strings.TrimSpace(fmt.Sprintf(format, args...))
	}
}
func (r *recorder) Error(args ...any)                 { r.Errorf("%s", fmt.Sprintln(args...)) }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
func (r *recorder) Helper()                           {}
