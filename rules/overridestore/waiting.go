package overridestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// KeepWaiting is for how long overrides wait for a missing rule.
const KeepWaiting = 35 * 24 * time.Hour

// waiting is which rules of overrides are missing: RULESET or RULESET/RULE.
type waiting struct {
	missing, back map[string]bool
	since         map[string]time.Time // of those that overrides wait for, by the shared clock
}

func (w *waiting) names() rules.WaitingRules {
	return rules.WaitingRules{Missing: slices.Sorted(maps.Keys(w.missing)), Back: slices.Sorted(maps.Keys(w.back))}
}

// look looks for the rules of overrides. What it finds is noted at the next comparison.
func (s *Store) look(ctx context.Context, found *rules.OverrideState) {
	next := waiting{missing: map[string]bool{}, back: map[string]bool{}, since: map[string]time.Time{}}
	heads, err := s.config.Rules.Revisions(ctx, slices.Collect(maps.Keys(found.Revisions)))
	if err != nil {
		return // it is not known what the rules are
	}
	for id := range found.Revisions {
		head, known := heads[id]
		switch {
		case !known || head.Deleted:
			delete(s.seen, id)
			if s.exist(ctx, id, "", found.Now) {
				next.missing[id] = true
			} else {
				next.back[id] = true
			}
			continue
		case s.seen[id].set == nil || s.seen[id].head != head:
			version, err := s.config.Rules.Load(ctx, id)
			if err != nil || version.RuleSet == nil {
				continue
			}
			s.seen[id] = seenRules{head, version.RuleSet}
		}
		next.back[id] = true
		for rule := range s.rulesOf(id) {
			_, there := s.seen[id].set.Rule(rule)
			if name := id + "/" + rule; there {
				next.back[name] = true
			} else {
				next.missing[name] = true
			}
		}
	}
	for name, since := range found.Waiting {
		switch {
		case !next.missing[name]:
		case found.Now.Sub(since) > KeepWaiting:
			if s.deleteWaiting(ctx, name) {
				next.back[name] = true
				delete(next.missing, name)
			}
		default:
			next.since[name] = since
		}
	}
	maps.DeleteFunc(next.back, func(name string, _ bool) bool { _, noted := found.Waiting[name]; return !noted })
	maps.DeleteFunc(next.missing, func(name string, _ bool) bool { _, noted := found.Waiting[name]; return noted })
	s.waiting = next
}

// seenRules is a rule set when it was last loaded.
type seenRules struct {
	head rules.Head
	set  *rules.Set
}

// rulesOf returns the rules that have, or had, overrides in a rule set.
func (s *Store) rulesOf(ruleSet string) map[string]bool {
	if c := s.copies[ruleSet]; c != nil {
		return c.rules
	}
	return nil
}

// each calls with every page of the overrides of a rule set, or of one of its rules, until that returns
// false.
func (s *Store) each(ctx context.Context, ruleSet, rule string, do func([]rules.Override) bool) error {
	for after, more := "", true; more; {
		page, err := s.config.Shared.ListOverrides(ctx, ruleSet, after, rules.MaxPage)
		if err != nil {
			return err
		}
		list := slices.DeleteFunc(page.Overrides, func(o rules.Override) bool { return rule != "" && o.RuleID != rule })
		if !do(list) {
			return nil
		}
		after, more = page.Next, page.Next != ""
	}
	return nil
}

// exist reports whether a rule set, or a rule, has overrides that have not ended.
func (s *Store) exist(ctx context.Context, ruleSet, rule string, now time.Time) (found bool) {
	_ = s.each(ctx, ruleSet, rule, func(list []rules.Override) bool {
		found = slices.ContainsFunc(list, func(o rules.Override) bool { return o.Until.IsZero() || o.Until.After(now) })
		return !found
	})
	return found
}

// deleteWaiting deletes overrides that have waited for too long. It reports whether it did.
func (s *Store) deleteWaiting(ctx context.Context, name string) bool {
	ruleSet, rule, _ := strings.Cut(name, "/")
	var all []rules.Override
	err := s.each(ctx, ruleSet, rule, func(list []rules.Override) bool {
		for _, o := range list {
			deletion := o.Deletion("fluxgate")
			deletion.Revision = o.Revision
			all = append(all, deletion)
		}
		return true
	})
	for part := range slices.Chunk(all, rules.MaxPage) {
		if err == nil {
			_, err = s.config.Shared.PutSharedOverrides(ctx, s.current, rules.OverrideRecord{}, ruleSet, part)
		}
	}
	if err != nil {
		s.config.Logger.Warn("cannot delete the overrides of a missing rule: tried again later", "missing", name, "error", err)
		return false
	}
	if len(all) > 0 {
		s.config.Logger.Warn("deleted overrides: their rule is missing for 35 days", "missing", name, "overrides", len(all))
	}
	return true
}

// Problems returns what is wrong with the copy, and which overrides wait for their rule set.
func (s *Store) Problems() []string { return *s.problems.Load() }

// report writes the problems.
func (s *Store) report() {
	all := []string{}
	for _, err := range []error{s.foreign, s.damaged} {
		if err != nil {
			all = append(all, err.Error())
		}
	}
	if s.unsaved != nil {
		all = append(all, fmt.Sprintf("the copy of overrides on disk is not up to date: %v", s.unsaved))
	}
	if s.restored > 0 && time.Since(s.restoredAt) < 24*time.Hour {
		all = append(all, fmt.Sprintf("the shared overrides were lost: %d changes of the copy on disk were merged at %s",
			s.restored, s.restoredAt.UTC().Format(time.DateTime)))
	}
	for _, name := range slices.Sorted(maps.Keys(s.waiting.since)) {
		if until := s.waiting.since[name].Add(KeepWaiting); !strings.Contains(name, "/") {
			all = append(all, fmt.Sprintf("rule set %s is missing: its overrides wait for it, and are deleted on %s",
				name, until.UTC().Format(time.DateOnly)))
		}
	}
	s.problems.Store(&all)
}
