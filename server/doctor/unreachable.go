package doctor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/server/config"
)

// UnreachableRules returns a line for each rule of rules.file that no request can reach, or
// why rules cannot be read. It returns nothing if rules.file is not the rule source.
func UnreachableRules(ctx context.Context, c *config.Config) ([]string, error) {
	if c.RuleSource() != config.SourceFile {
		return nil, nil
	}
	source, err := filerules.Open(c.Rules.File, filerules.Config{MaxFiles: c.Rules.MaxRuleSets})
	if err != nil {
		return nil, err
	}
	ids, err := source.IDs(ctx)
	if err != nil {
		return nil, err
	}
	var lines []string
	var failures []error
	for _, id := range ids {
		version, err := source.Load(ctx, id)
		if failures = append(failures, err); err == nil {
			lines = append(lines, unreachable(c, version.RuleSet)...)
		}
	}
	return lines, errors.Join(failures...)
}

// unreachable returns a line for each enabled rule that limits no request, whatever its
// caller is. Paths with several readings are left out: no application has them.
func unreachable(c *config.Config, set *rules.Set) []string {
	var lines []string
	var before []rules.Rule
	for r := range set.Rules() {
		if r.Disabled {
			continue
		}
		if why := whyUnreachable(c, &r, before); why != "" {
			lines = append(lines, fmt.Sprintf("rule set %q: no request reaches rule %q: %s", set.ID(), r.ID, why))
		}
		if r.Mode != rules.ModeShadow && r.Until.IsZero() && reflect.ValueOf(r.When).IsZero() {
			before = append(before, r)
		}
	}
	return lines
}

// whyUnreachable returns why no request reaches a rule, or "". before are the enforced rules
// with a higher priority whose only conditions are paths and methods.
func whyUnreachable(c *config.Config, r *rules.Rule, before []rules.Rule) string {
	exclude := slices.Clone(r.When.ExcludePaths)
	if r.IgnoreCase {
		exclude = nil // other cases of the letters may not be excluded
	}
	if !match.Reaches(r.Paths, nil, exclude) {
		return "its excludePaths have all of its paths"
	}
	for i := range before {
		b := &before[i]
		ends := b.Action == rules.ActionAllow || b.Action == rules.ActionDeny
		// One of another group may be displaced there, and then ends nothing.
		displaces := b.Group == "" && ends || b.Group != "" && b.Group == r.Group
		if !displaces || !coversMethods(b.Methods, r.Methods) || r.IgnoreCase {
			continue
		}
		if exclude = append(exclude, orAll(b.Paths)...); match.Reaches(r.Paths, nil, exclude) {
			continue
		}
		if ends {
			return fmt.Sprintf("rule %q (action %s) ends the evaluation before it", b.ID, b.Action)
		}
		return fmt.Sprintf("rule %q of its group has a higher priority and applies to the same requests", b.ID)
	}
	l := &c.RateLimit
	if !c.ForwardAuth.Enabled || !l.FilterEnabled || r.IgnoreCase || len(r.When.Descriptor) > 0 {
		return ""
	}
	if !match.Reaches(r.Paths, l.IncludePatterns, nil) {
		return fmt.Sprintf("ratelimit.include-patterns %q have none of its paths, so that forward-auth does not limit them "+
			"(* is one segment, ** any number)", l.IncludePatterns)
	}
	if !match.Reaches(r.Paths, l.IncludePatterns, append(exclude, l.ExcludePatterns...)) {
		return fmt.Sprintf("ratelimit.exclude-patterns %q have all of its paths, so that forward-auth does not limit them",
			l.ExcludePatterns)
	}
	return ""
}

func orAll(patterns []string) []string {
	if len(patterns) == 0 {
		return []string{"/**"}
	}
	return patterns
}

// coversMethods reports whether a rule with these methods matches all requests of a rule with
// the others.
func coversMethods(methods, others []string) bool {
	return len(methods) == 0 || len(others) > 0 && !slices.ContainsFunc(others, func(m string) bool { return !slices.Contains(methods, m) })
}

// forgotten is how long after its end a rule may still be there.
const forgotten = 7 * 24 * time.Hour

func (d *diagnosis) unreachable(set *rules.Set) {
	for r := range set.Rules() {
		if !r.Disabled && !r.Until.IsZero() && time.Since(r.Until) > forgotten {
			d.add(Watch, "ended", "remove the rule", "rule %q of rule set %q has ended at %s", r.ID, set.ID(), r.Until.Format(time.RFC3339))
		}
	}
	for _, line := range unreachable(d.config, set) {
		d.add(Watch, "reachable", "correct the patterns or priorities, or remove the rule", "%s", line)
	}
}
