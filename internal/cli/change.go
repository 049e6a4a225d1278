package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/spf13/cobra"
)

// changeFlags are how a change is made.
type changeFlags struct {
	where   where
	confirm confirmation
	comment string
}

func (f *changeFlags) flags(cmd *cobra.Command) {
	f.where.flags(cmd)
	f.confirm.flag(cmd)
	cmd.Flags().StringVar(&f.where.author, "author", "", "with --direct: who makes the change (default: the user of this machine)")
	cmd.Flags().StringVarP(&f.comment, "comment", "m", "", "why, for the history")
}

// change is who changes a rule set, based on what, and why.
func (f *changeFlags) change(base int64) rules.Change {
	return rules.Change{Base: base, Author: f.where.signature(), Comment: f.comment}
}

// writable refuses rules that are in files before anybody thinks about a change.
func writable(ctx context.Context, operator admin.Operator) error {
	who, err := whoami(ctx, operator)
	if err == nil && who.ReadOnly {
		err = fmt.Errorf("nothing was changed: %w", admin.ErrReadOnly)
	}
	return err
}

// proposal is what would become of a rule set.
type proposal struct {
	id   string
	base int64 // the revision it was compared with, 0 if there was none
	// before and after are nil where there is no rule set.
	before, after *fluxgate.RuleSet
	changes       []rules.RuleDiff
}

// propose compares what a rule set shall be with what it is.
func propose(ctx context.Context, source rules.Source, id string, after *fluxgate.RuleSet) (*proposal, error) {
	p := &proposal{id: id, after: after}
	now, err := source.Load(ctx, id)
	switch {
	case errors.Is(err, rules.ErrNotFound):
	case err != nil:
		return nil, err
	default:
		p.base, p.before = now.Revision, now.RuleSet
	}
	p.changes = rules.Diff(p.before, after)
	return p, nil
}

// changed reports whether there is anything to do. A new rule set without rules
// is something.
func (p *proposal) changed() bool { return len(p.changes) > 0 || p.before == nil }

// print shows what would change.
func (p *proposal) print(out io.Writer) error {
	var head string
	switch {
	case !p.changed():
		head = fmt.Sprintf("%s: unchanged (revision %d)", p.id, p.base)
	case p.before == nil:
		head = fmt.Sprintf("%s, new: %s", p.id, summary(p.changes))
	default:
		head = fmt.Sprintf("%s, revision %d: %s", p.id, p.base, summary(p.changes))
	}
	if _, err := fmt.Fprintln(out, head); err != nil {
		return err
	}
	return rules.WriteDiff(out, p.changes, diffPainter(out))
}

// summary counts the rules that differ.
func summary(changes []rules.RuleDiff) string {
	var parts []string
	for _, kind := range []rules.DiffKind{rules.DiffAdded, rules.DiffChanged, rules.DiffRemoved} {
		n := 0
		for i := range changes {
			if changes[i].Change == kind {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, kind))
		}
	}
	if len(parts) == 0 {
		return "no rules"
	}
	return strings.Join(parts, ", ")
}

// put makes a proposal come true if the rule set still is what it was compared
// with.
func (f *changeFlags) put(ctx context.Context, cmd *cobra.Command, operator admin.Operator, p *proposal) error {
	return f.make(cmd, p, func(change rules.Change) (int64, error) { return operator.Put(ctx, p.after, change) })
}

// make makes a change that was proposed, and says what came of it.
func (f *changeFlags) make(cmd *cobra.Command, p *proposal, change func(rules.Change) (int64, error)) error {
	revision, err := change(f.change(p.base))
	if err != nil {
		return refused(cmd.ErrOrStderr(), p.id, err)
	}
	text := fmt.Sprintf("%s: revision %d", p.id, revision)
	switch revision {
	case p.base:
		text = fmt.Sprintf("%s: unchanged (revision %d)", p.id, revision)
	default:
		if p.base > 0 {
			text += fmt.Sprintf(", was %d", p.base)
		}
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
	return err
}

// refused is the error of a change that was not made, with what the other has
// changed if that is why.
func refused(screen io.Writer, id string, err error) error {
	var conflict *admin.Conflict
	var plain *rules.ConflictError
	switch {
	case errors.As(err, &conflict):
		return &refusal{err, describe(screen, id, conflict)}
	case errors.As(err, &plain):
		return &refusal{err, describe(screen, id, &admin.Conflict{ConflictError: *plain})}
	case uncertain(err):
		return fmt.Errorf("%s: %w\nthe change may have been made all the same: look before you try again, with fluxgate rules history %s", id, err, id)
	}
	return fmt.Errorf("%s was not changed: %w", id, err)
}

// refusal is an error that says the same in words of its own.
type refusal struct {
	error
	text string
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.error }

// describe says what the other has changed.
func describe(screen io.Writer, id string, c *admin.Conflict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s was not changed: %v", id, &c.ConflictError)
	if c.Author != "" {
		fmt.Fprintf(&b, "\n%s made revision %d at %s", printable.Line(c.Author, maxCell), c.Current, moment(c.At))
		if c.Comment != "" {
			fmt.Fprintf(&b, ": %s", printable.Line(c.Comment, 5*maxCell))
		}
	}
	b.WriteByte('\n')
	if len(c.Changes) > 0 {
		fmt.Fprintf(&b, "what they have changed since revision %d:\n", c.Base)
		_ = rules.WriteDiff(&b, c.Changes, diffPainter(screen)) // a builder takes everything
	}
	b.WriteString("nothing was overwritten: look at the difference and apply again")
	return b.String()
}

// uncertain reports whether a change may have been made though there was an
// error: what was asked may have arrived, and only the answer was lost.
func uncertain(err error) bool {
	var (
		answered *admin.Problem // which says so itself
		invalid  *fluxgate.ValidationError
		network  *net.OpError
	)
	switch {
	case errors.As(err, &answered), errors.As(err, &invalid), errors.Is(err, rules.ErrNotFound), errors.Is(err, admin.ErrReadOnly):
		return false
	case errors.As(err, &network):
		return network.Op != "dial"
	}
	return true
}
