package admin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/rules"
)

// Direct is an operator that works on a rule source and an engine, with no
// server between.
type Direct struct {
	rules.Editor
	engine  func() *fluxgate.Engine
	ruleSet string
}

var _ Operator = (*Direct)(nil)

// ErrNoEngine is returned where rules can be edited but nothing is decided.
var ErrNoEngine = errors.New("there is nothing here that decides requests")

// NewDirect makes an operator. The engine is asked for whenever it is needed,
// and may be nil where only rules are edited; ruleSet is the one of requests
// that name none.
func NewDirect(editor rules.Editor, engine func() *fluxgate.Engine, ruleSet string) *Direct {
	return &Direct{Editor: editor, engine: engine, ruleSet: ruleSet}
}

// Whoami implements [Operator]: nobody asks here.
func (d *Direct) Whoami(context.Context) (*Who, error) {
	_, files := d.Editor.(*readOnly)
	return &Who{Name: "direct", Roles: []string{"read", "write"}, DefaultRuleSet: d.ruleSet, ReadOnly: files}, nil
}

// Changed is what a change has made of a rule set. Before and After are nil
// where there is none.
type Changed struct {
	Before, After *fluxgate.RuleSet
	// Diff is what differs between them.
	Diff []rules.RuleDiff
	// Revision is the one that there is now: that of the base if there was
	// nothing to change.
	Revision int64
}

// Edit says what becomes of a rule set. It gets it as the author of the change
// has seen it, nil if there was none, and returns what it shall be, nil to take
// it away.
type Edit func(before *fluxgate.RuleSet) (after *fluxgate.RuleSet, err error)

// Change makes a change to a rule set, and keeps the times of its rules.
func (d *Direct) Change(ctx context.Context, id string, change rules.Change, edit Edit) (Changed, error) {
	return d.change(ctx, id, change, edit, func(before, after *fluxgate.RuleSet) (*fluxgate.RuleSet, error) {
		return rules.Stamp(before, after, time.Now())
	})
}

// Restore implements [Operator].
func (d *Direct) Restore(ctx context.Context, id string, revision int64, change rules.Change) (int64, error) {
	done, err := d.RestoreChange(ctx, id, revision, change)
	return done.Revision, err
}

// RestoreChange is Restore, and tells what it has changed.
func (d *Direct) RestoreChange(ctx context.Context, id string, revision int64, change rules.Change) (Changed, error) {
	if change.Comment == "" {
		change.Comment = rules.RestoreComment(revision)
	}
	return d.change(ctx, id, change, func(*fluxgate.RuleSet) (*fluxgate.RuleSet, error) {
		v, err := d.Version(ctx, id, revision)
		if err == nil && v.RuleSet == nil {
			err = fmt.Errorf("revision %d took the rule set away: %w", revision, rules.ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
		return v.RuleSet, nil
	}, func(_, after *fluxgate.RuleSet) (*fluxgate.RuleSet, error) { return after, nil })
}

func (d *Direct) change(ctx context.Context, id string, change rules.Change, edit Edit, stamp func(before, after *fluxgate.RuleSet) (*fluxgate.RuleSet, error)) (Changed, error) {
	before, err := d.base(ctx, id, change)
	if err != nil {
		return Changed{}, describe(ctx, d.Editor, err)
	}
	after, err := edit(before)
	if err != nil {
		return Changed{}, err
	}
	done := Changed{Before: before, After: after}
	if done.Diff = rules.Diff(before, after); before != nil && after != nil && len(done.Diff) == 0 {
		done.Revision, err = change.Base, d.stands(ctx, id, change)
		return done, describe(ctx, d.Editor, err)
	}
	if after == nil {
		done.Revision, err = d.Editor.Delete(ctx, id, change)
	} else if done.After, err = stamp(before, after); err == nil {
		done.Revision, err = d.Editor.Put(ctx, done.After, change)
	}
	if err != nil {
		return Changed{}, describe(ctx, d.Editor, err)
	}
	return done, nil
}

// stands refuses a change that would change nothing if it is not based on what
// is current.
func (d *Direct) stands(ctx context.Context, id string, change rules.Change) error {
	if err := change.Check(); err != nil {
		return err
	}
	heads, err := d.Revisions(ctx, []string{id})
	if err != nil {
		return err
	}
	return change.CheckHead(id, heads[id])
}

// base is the rule set that a change is based on, or nil if there was none. A
// revision that there is not is a conflict: it cannot be the current one.
func (d *Direct) base(ctx context.Context, id string, change rules.Change) (*fluxgate.RuleSet, error) {
	if change.Base == 0 {
		return nil, nil
	}
	v, err := d.Version(ctx, id, change.Base)
	switch {
	case errors.Is(err, rules.ErrNotFound):
		return nil, d.stands(ctx, id, change)
	case err != nil:
		return nil, err
	}
	return v.RuleSet, nil
}

// Put implements [Operator].
func (d *Direct) Put(ctx context.Context, set *fluxgate.RuleSet, change rules.Change) (int64, error) {
	done, err := d.Change(ctx, set.ID(), change, func(*fluxgate.RuleSet) (*fluxgate.RuleSet, error) { return set, nil })
	return done.Revision, err
}

// Delete implements [Operator].
func (d *Direct) Delete(ctx context.Context, id string, change rules.Change) (int64, error) {
	done, err := d.Change(ctx, id, change, func(*fluxgate.RuleSet) (*fluxgate.RuleSet, error) { return nil, nil })
	return done.Revision, err
}

// Explain implements [Operator].
func (d *Direct) Explain(ctx context.Context, req *fluxgate.Request) (*Explanation, error) {
	engine, err := d.decides()
	if err != nil {
		return nil, err
	}
	e, err := engine.Explain(ctx, req)
	if err != nil {
		return nil, d.truth(ctx, req, err)
	}
	return explained(&e), nil
}

// Effective says which rules apply to a request, which do not and why. It asks
// no store.
func (d *Direct) Effective(ctx context.Context, req *fluxgate.Request) (*Explanation, error) {
	engine, err := d.decides()
	if err != nil {
		return nil, err
	}
	set, all, err := engine.Effective(ctx, req)
	if err != nil {
		return nil, d.truth(ctx, req, err)
	}
	return verdicts(set, all), nil
}

// Buckets implements [Operator].
func (d *Direct) Buckets(ctx context.Context, req *fluxgate.Request, rules ...string) ([]Bucket, error) {
	engine, err := d.decides()
	if err != nil {
		return nil, err
	}
	found, err := engine.Buckets(ctx, req, rules...)
	if err != nil {
		return nil, d.truth(ctx, req, err)
	}
	all := make([]Bucket, len(found))
	for i := range found {
		b := &found[i]
		all[i] = Bucket{Rule: b.Rule.ID, Key: b.Key.ID.String(), Status: b.Status.String(), Time: b.Time.UTC(), Bands: []Band{}}
		for j := range b.Bands {
			all[i].Bands = append(all[i].Bands, wire.FromBand(&b.Bands[j]))
		}
	}
	return all, nil
}

// truth is why there is no rule set: that its source cannot be asked is another
// matter than that there is none.
func (d *Direct) truth(ctx context.Context, req *fluxgate.Request, err error) error {
	if !errors.Is(err, fluxgate.ErrNoRuleSet) {
		return err
	}
	id := req.RuleSet
	if id == "" {
		id = d.ruleSet
	}
	if _, away := d.Revisions(ctx, []string{id}); away != nil {
		return away
	}
	return err
}

// maxReset bounds a reset: a store that is away is not waited for.
const maxReset = 10 * time.Second

// Reset implements [Operator].
func (d *Direct) Reset(ctx context.Context, what Reset) error {
	_, err := d.ResetKey(ctx, what)
	return err
}

// ResetKey is Reset, and tells what was reset.
func (d *Direct) ResetKey(ctx context.Context, what Reset) (fluxgate.Key, error) {
	engine, err := d.decides()
	if err != nil {
		return fluxgate.Key{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, maxReset)
	defer cancel()
	key, err := what.key(ctx, engine)
	if err != nil {
		return key, d.truth(ctx, &fluxgate.Request{RuleSet: what.RuleSet}, err)
	}
	return key, engine.Reset(ctx, key)
}

// ErrReset is wrapped by errors about resets that say too little or too much.
var ErrReset = errors.New("which buckets to reset is not clear")

// key is what a reset names.
func (r *Reset) key(ctx context.Context, engine *fluxgate.Engine) (fluxgate.Key, error) {
	key := fluxgate.Key{RuleSet: r.RuleSet, Rule: r.Rule}
	one := r.Key != "" || r.Request != nil
	switch {
	case !fluxgate.ValidID(r.RuleSet):
		return key, fmt.Errorf("%w: name a rule set", ErrReset)
	case r.Rule != "" && !fluxgate.ValidID(r.Rule):
		return key, fmt.Errorf("%w: that is not the id of a rule", ErrReset)
	case r.Key != "" && r.Request != nil, one && r.All:
		return key, fmt.Errorf("%w: name all, a key or a request, and one of them alone", ErrReset)
	case !one && !r.All:
		return key, fmt.Errorf("%w: name a caller by a request or a key, or say that all callers are meant", ErrReset)
	case one && r.Rule == "":
		return key, fmt.Errorf("%w: name the rule whose bucket it is", ErrReset)
	}
	verdict, err := r.verdict(ctx, engine)
	switch {
	case err != nil || r.All:
		return key, err
	case r.Key != "":
		raw, err := hex.DecodeString(r.Key)
		if err != nil || len(raw) != len(key.ID) {
			return key, fmt.Errorf("%w: a key has %d hexadecimal digits", ErrReset, 2*len(key.ID))
		}
		key.ID = fluxgate.KeyID(raw)
		return key, nil
	case len(verdict.Missing) > 0:
		// Its bucket would be one that it shares with strangers.
		return key, fmt.Errorf("%w: the request does not say %s, which rule %s counts by; the bucket of callers without can be named by its key",
			ErrReset, strings.Join(verdict.Missing, ", "), r.Rule)
	case verdict.Key == fluxgate.Key{}:
		return key, fmt.Errorf("%w: rule %s has no buckets", ErrReset, r.Rule)
	}
	return verdict.Key, nil
}

// verdict is that of the rule on the request. It refuses what does not exist: a
// slip of the pen would reset nothing, and say that it had.
func (r *Reset) verdict(ctx context.Context, engine *fluxgate.Engine) (fluxgate.Verdict, error) {
	var req fluxgate.Request
	if r.Request != nil {
		if of := r.Request.RuleSet; of != "" && of != r.RuleSet {
			return fluxgate.Verdict{}, fmt.Errorf("%w: the request is about another rule set", ErrReset)
		}
		if err := r.Request.To(&req); err != nil {
			return fluxgate.Verdict{}, fmt.Errorf("%w: %w", ErrReset, err)
		}
	}
	req.RuleSet = r.RuleSet
	_, all, err := engine.Effective(ctx, &req)
	if err != nil || r.Rule == "" {
		return fluxgate.Verdict{}, err
	}
	for i := range all {
		if all[i].Rule.ID == r.Rule {
			return all[i], nil
		}
	}
	return fluxgate.Verdict{}, fmt.Errorf("rule %q of rule set %q: %w", r.Rule, r.RuleSet, fluxgate.ErrNoRule)
}

func (d *Direct) decides() (*fluxgate.Engine, error) {
	if d.engine == nil {
		return nil, ErrNoEngine
	}
	if engine := d.engine(); engine != nil {
		return engine, nil
	}
	return nil, ErrNoEngine
}
