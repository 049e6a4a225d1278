package admin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/rules"
)

// Direct is an operator that works on a rule source and an engine, with no
// server between.
type Direct struct {
	rules.Editor
	engine func() *fluxgate.Engine
}

var _ Operator = (*Direct)(nil)

// ErrNoEngine is returned where rules can be edited but nothing is decided.
var ErrNoEngine = errors.New("there is nothing here that decides requests")

// NewDirect makes an operator. The engine is asked for whenever it is needed,
// and may be nil where only rules are edited.
func NewDirect(editor rules.Editor, engine func() *fluxgate.Engine) *Direct {
	return &Direct{Editor: editor, engine: engine}
}

// Changed is what a change has made of a rule set. Before and After are nil
// where there is none.
type Changed struct {
	Before, After *fluxgate.RuleSet
	// Revision is the one that there is now: that of the base if there was
	// nothing to change.
	Revision int64
}

// Change makes a change to a rule set: edit gets it as its author has seen it,
// nil if there was none, and returns what it shall be, nil to take it away.
func (d *Direct) Change(ctx context.Context, id string, change rules.Change, edit func(before *fluxgate.RuleSet) (*fluxgate.RuleSet, error)) (Changed, error) {
	before, err := d.base(ctx, id, change.Base)
	if err != nil {
		return Changed{}, err
	}
	after, err := edit(before)
	if err != nil {
		return Changed{}, err
	}
	done := Changed{Before: before, After: after}
	switch {
	case after == nil:
		done.Revision, err = d.Editor.Delete(ctx, id, change)
	case before != nil && len(rules.Diff(before, after)) == 0:
		done.Revision, err = change.Base, d.stands(ctx, id, change)
	default:
		if done.After, err = rules.Stamp(before, after, time.Now()); err == nil {
			done.Revision, err = d.Editor.Put(ctx, done.After, change)
		}
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

// base is the rule set that a change is based on, or nil if there is none. One
// that cannot be found is no error: the editor will say that it is not current.
func (d *Direct) base(ctx context.Context, id string, revision int64) (*fluxgate.RuleSet, error) {
	if revision == 0 {
		return nil, nil
	}
	v, err := d.Version(ctx, id, revision)
	if errors.Is(err, rules.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
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
		return nil, err
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
		return nil, err
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
		return nil, err
	}
	all := make([]Bucket, len(found))
	for i := range found {
		b := &found[i]
		all[i] = Bucket{Rule: b.Rule.ID, Key: b.Key.ID.String(), Time: b.Time.UTC()}
		for j := range b.Bands {
			all[i].Bands = append(all[i].Bands, wire.FromBand(&b.Bands[j]))
		}
	}
	return all, nil
}

// Reset implements [Operator].
func (d *Direct) Reset(ctx context.Context, what Reset) error {
	engine, err := d.decides()
	if err != nil {
		return err
	}
	key, err := what.key(ctx, engine)
	if err != nil {
		return err
	}
	return engine.Reset(ctx, key)
}

// ErrReset is wrapped by errors about resets that say too little or too much.
var ErrReset = errors.New("which buckets to reset is not clear")

// key is what a reset names.
func (r *Reset) key(ctx context.Context, engine *fluxgate.Engine) (fluxgate.Key, error) {
	key := fluxgate.Key{RuleSet: r.RuleSet, Rule: r.Rule}
	switch {
	case !fluxgate.ValidID(r.RuleSet):
		return key, fmt.Errorf("%w: name a rule set", ErrReset)
	case r.Rule != "" && !fluxgate.ValidID(r.Rule):
		return key, fmt.Errorf("%w: that is not the id of a rule", ErrReset)
	case r.Key != "" && r.Request != nil:
		return key, fmt.Errorf("%w: a caller is named by a key or by a request, not by both", ErrReset)
	case r.Rule == "" && (r.Key != "" || r.Request != nil):
		return key, fmt.Errorf("%w: name the rule whose bucket it is", ErrReset)
	case r.Request != nil && r.Request.RuleSet != "" && r.Request.RuleSet != r.RuleSet:
		return key, fmt.Errorf("%w: the request is for another rule set", ErrReset)
	case r.Key != "":
		raw, err := hex.DecodeString(r.Key)
		if err != nil || len(raw) != len(key.ID) {
			return key, fmt.Errorf("%w: a key has %d hexadecimal digits", ErrReset, 2*len(key.ID))
		}
		key.ID = fluxgate.KeyID(raw)
		return key, known(ctx, engine, key)
	case r.Request == nil:
		return key, known(ctx, engine, key)
	default:
		var req fluxgate.Request
		if err := r.Request.To(&req); err != nil {
			return key, fmt.Errorf("%w: %w", ErrReset, err)
		}
		req.RuleSet = r.RuleSet
		found, err := engine.Buckets(ctx, &req, r.Rule)
		if err != nil {
			return key, err
		}
		key = found[0].Key
	}
	return key, nil
}

// known refuses what does not exist: a slip of the pen would reset nothing and
// say that it had.
func known(ctx context.Context, engine *fluxgate.Engine, key fluxgate.Key) error {
	_, all, err := engine.Effective(ctx, &fluxgate.Request{RuleSet: key.RuleSet})
	if err != nil || key.Rule == "" {
		return err
	}
	for i := range all {
		if all[i].Rule.ID == key.Rule {
			return nil
		}
	}
	return fmt.Errorf("rule %q of rule set %q: %w", key.Rule, key.RuleSet, fluxgate.ErrNoRule)
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
