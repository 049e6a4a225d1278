package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
)

// changeFlags are shared by the commands that change rules.
type changeFlags struct {
	target  target
	confirm confirmFlag
	comment string
	force   bool
}

func (f *changeFlags) flags(cmd *cobra.Command) {
	f.target.flags(cmd)
	f.confirm.flag(cmd)
	f.target.directFlags(cmd)
	f.target.authorFlag(cmd)
	cmd.Flags().StringVarP(&f.comment, "comment", "m", "", "the reason, for the history")
	cmd.Flags().BoolVar(&f.force, "force", false, "make the change although overrides do not fit the new rules")
}

// change is the author and the reason of a change that is based on a revision.
func (f *changeFlags) change(base int64) rules.Change {
	return rules.Change{Base: base, Author: f.target.signature(), Comment: f.comment, Force: f.force}
}

// run calls do if the target can be changed. Rules in files are refused before
// anything is shown.
func (f *changeFlags) run(cmd *cobra.Command, do func(context.Context, admin.Operator) error) error {
	if err := f.change(0).Check(); err != nil {
		return &usageError{err}
	}
	return f.target.run(cmd, func(ctx context.Context, operator admin.Operator) error {
		if err := changeable(ctx, operator); err != nil {
			return err
		}
		return do(ctx, operator)
	})
}

// changeable returns an error for rules in files.
func changeable(ctx context.Context, operator admin.Operator) error {
	who, err := operator.Whoami(ctx)
	if err == nil && who.ReadOnly {
		err = fmt.Errorf("nothing was changed: %w", admin.ErrReadOnly)
	}
	return err
}

// proposal is a change of a rule set that is not made yet.
type proposal struct {
	id   string
	base int64 // the revision it was compared with, 0 if there was none
	// before is nil if there is no rule set.
	before, after *rules.Set
	changes       []rules.RuleDiff
}

// propose compares rule sets with the current ones.
func propose(ctx context.Context, source rules.Source, sets ...*rules.Set) ([]*proposal, error) {
	all := make([]*proposal, len(sets))
	for i, set := range sets {
		now, err := source.Load(ctx, set.ID())
		if errors.Is(err, rules.ErrNotFound) {
			now, err = new(rules.Version), nil
		}
		if err != nil {
			return nil, err
		}
		all[i] = &proposal{set.ID(), now.Revision, now.RuleSet, set, rules.Diff(now.RuleSet, set)}
	}
	return all, nil
}

// changed reports whether there is anything to do. A new rule set without rules
// is a change.
func (p *proposal) changed() bool { return len(p.changes) > 0 || p.before == nil }

// write shows what would change.
func (p *proposal) write(out io.Writer) {
	title := fmt.Sprintf("%s, revision %v: %s", p.id, rules.ShownRevision(p.base), summary(p.changes))
	switch {
	case p.before == nil:
		title = fmt.Sprintf("%s, new: %s", p.id, summary(p.changes))
	case !p.changed():
		title = fmt.Sprintf("%s: unchanged (revision %v)", p.id, rules.ShownRevision(p.base))
	}
	writeDiff(out, title, p.changes)
}

func writeDiff(out io.Writer, title string, changes []rules.RuleDiff) {
	printf(out, "%s\n", title)
	_ = rules.WriteDiff(out, changes, diffPainter(out)) // out keeps its error
}

// summary counts the rules that differ.
func summary(changes []rules.RuleDiff) string {
	counts := map[rules.DiffKind]int{}
	var parts []string
	for i := range changes {
		if c := &changes[i]; c.Rule == rules.DiffCostTables {
			parts = append(parts, fmt.Sprintf("%s %s", c.Rule, c.Change))
		} else {
			counts[c.Change]++
		}
	}
	for _, kind := range []rules.DiffKind{rules.DiffAdded, rules.DiffChanged, rules.DiffRemoved} {
		if n := counts[kind]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, kind))
		}
	}
	if len(parts) == 0 {
		return "no rules"
	}
	return strings.Join(parts, ", ")
}

// commit makes a proposed change and reports the new revision.
func (f *changeFlags) commit(cmd *cobra.Command, p *proposal, write func(rules.Change) (int64, error)) error {
	revision, err := write(f.change(p.base))
	if err != nil {
		return changeError(cmd.ErrOrStderr(), p.id, err)
	}
	text := fmt.Sprintf("revision %d, was %d", revision, p.base)
	switch p.base {
	case revision:
		text = fmt.Sprintf("unchanged (revision %d)", revision)
	case 0:
		text = fmt.Sprintf("revision %d", revision)
	}
	printf(cmd.OutOrStdout(), "%s: %s\n", p.id, text)
	return nil
}

// changeError is the error of a change that was not made. A conflict comes with
// the other operator's change, in colour if the screen has it.
func changeError(screen io.Writer, id string, err error) error {
	var conflict *admin.Conflict
	switch {
	case errors.As(err, &conflict):
		return errors.New(describeConflict(screen, id, conflict))
	case uncertain(err):
		return fmt.Errorf("%s: %w\nthe change may have been made: check fluxgate rules history %s before you try again", id, err, id)
	}
	return fmt.Errorf("%s was not changed: %w", id, err)
}

func describeConflict(screen io.Writer, id string, c *admin.Conflict) string {
	var b strings.Builder
	printf(&b, "%s was not changed: %v", id, &c.ConflictError)
	if c.Author != "" {
		printf(&b, "\n%s made revision %d at %s", printable.Line(c.Author, maxCell), c.Current, moment(&c.At))
		if c.Comment != "" {
			printf(&b, ": %s", printable.Line(c.Comment, 5*maxCell))
		}
	}
	printf(&b, "\n")
	if len(c.Changes) > 0 {
		printf(&b, "changes since revision %d:\n", c.Base)
		_ = rules.WriteDiff(&b, c.Changes, diffPainter(screen)) // a builder has no errors
	}
	printf(&b, "nothing was overwritten: review the difference and apply again")
	return b.String()
}

// uncertain reports whether a change may have been made despite its error:
// the request may have arrived, and only the answer was lost.
func uncertain(err error) bool {
	var (
		problem *admin.Problem // the server answered
		invalid *rules.ValidationError
		network *net.OpError
	)
	switch {
	case errors.As(err, &problem), errors.As(err, &invalid), errors.Is(err, rules.ErrNotFound), errors.Is(err, admin.ErrReadOnly):
		return false
	case errors.As(err, &network):
		return network.Op != "dial"
	}
	return true
}
