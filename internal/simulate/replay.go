package simulate

import (
	"cmp"
	"context"

	"github.com/fluxgate/fluxgate/rules"
)

// Config says what to replay.
type Config struct {
	// Proposed are the rules to try out, Current those to compare them with, or nil.
	Proposed, Current *rules.Set
	// Logs are read together, in the order of their times.
	Logs []Input
	// Fields maps the fields of JSON lines: ip=client.ip. Parts of a request that it does
	// not have are looked for under common names.
	Fields []string
}

// Run replays logs. An error means that there is no report.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	r, err := newReplay(cfg)
	if err != nil {
		return nil, err
	}
	sources, err := openLogs(cfg.Logs, cfg.Fields)
	if err != nil {
		return nil, err
	}
	for s := earliest(sources); s != nil; s = earliest(sources) {
		if err := r.step(ctx, s.entry); err != nil {
			return nil, err
		}
		if err := s.next(); err != nil {
			return nil, err
		}
	}
	for _, s := range sources {
		r.report.Logs = append(r.report.Logs, s.log)
	}
	r.report.Evicted = r.proposed.store.Stats().Evicted
	return r.report, nil
}

// replay is a simulation under way.
type replay struct {
	report   *Report
	rules    map[string]*Rule // those of the report by their ids
	proposed *replica
	current  *replica // or nil
}

func newReplay(cfg Config) (r *replay, err error) {
	r = &replay{report: &Report{RuleSet: cfg.Proposed.ID()}, rules: map[string]*Rule{}}
	r.addRules(cfg.Proposed, false)
	if r.proposed, err = newReplica(cfg.Proposed); err != nil || cfg.Current == nil {
		return r, err
	}
	r.report.Difference = &Difference{Against: cfg.Current.ID()}
	r.addRules(cfg.Current, true)
	r.current, err = newReplica(cfg.Current)
	return r, err
}

// addRules adds the rules of a set to the report, unless it has rules with their ids.
func (r *replay) addRules(set *rules.Set, removed bool) {
	for rule := range set.Rules() {
		if rule.Disabled || r.rules[rule.ID] != nil {
			continue
		}
		action := string(cmp.Or(rule.Action, rules.ActionLimit))
		result := &Rule{Rule: rule.ID, Action: action, Shadow: rule.Mode == rules.ModeShadow, Removed: removed}
		r.rules[rule.ID] = result
		r.report.Rules = append(r.report.Rules, result)
	}
}

// step decides one request by the proposed and the current rules, and counts it.
func (r *replay) step(ctx context.Context, e *entry) error {
	limited, err := r.proposed.decide(ctx, e)
	if err != nil {
		return err
	}
	newly := false // for each rule that limits it
	if r.current != nil {
		byCurrent, err := r.current.decide(ctx, e)
		if err != nil {
			return err
		}
		newly = !byCurrent
		r.report.Difference.add(limited, byCurrent)
		for _, a := range r.current.applied {
			if a.limits && !limited {
				r.rules[a.id].NoLonger++
			}
		}
	}
	for _, a := range r.proposed.applied {
		r.rules[a.id].add(a.limits, newly)
	}
	r.report.add(e.at, limited)
	return nil
}
