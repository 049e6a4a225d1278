package filerules

import (
	"bytes"
	"context"
	"fmt"

	"github.com/fluxgate/fluxgate/internal/overridemap"
	"github.com/fluxgate/fluxgate/rules"
)

// overrideFile is a file of overrides.
type overrideFile struct {
	overridemap.Map // of the last valid content

	file *Source // nil if there is no file; it has no rule sets
}

// openOverrides returns the overrides of a file, which may have no name.
func openOverrides(path string, config Config) (*overrideFile, error) {
	o := &overrideFile{}
	if path == "" {
		return o, nil
	}
	config.Overrides, config.Parse = "", func(_ string, data []byte) ([]*rules.Set, error) {
		list, err := rules.ParseOverrides(bytes.NewReader(data), "")
		if err == nil {
			o.Replace(list)
		}
		return nil, err
	}
	var err error
	o.file, err = Open(path, config)
	return o, err
}

// update reads the file if it has changed. The error is that of its content.
func (o *overrideFile) update(ctx context.Context) (*state, error) {
	if o.file == nil {
		return nil, ctx.Err()
	}
	now, err := o.file.refresh(ctx)
	if err != nil {
		err = fmt.Errorf("reading overrides; the last valid ones stay in effect: %w", err)
	}
	return now, err
}

// OverrideRevisions implements [rules.Overrides]. It returns an error while the file has a
// problem.
func (s *Source) OverrideRevisions(ctx context.Context, ruleSets []string) (map[string]int64, error) {
	if _, err := s.overrides.update(ctx); err != nil {
		return nil, err
	}
	return s.overrides.OverrideRevisions(ctx, ruleSets)
}

// OverrideChanges implements [rules.Overrides], for the last valid content of the file.
func (s *Source) OverrideChanges(ctx context.Context, ruleSet string, after int64, limit int) (rules.OverridePage, error) {
	return s.overrides.OverrideChanges(ctx, ruleSet, after, limit)
}

// Override implements [rules.Overrides], for the last valid content of the file.
func (s *Source) Override(ctx context.Context, ruleSet, id string) (rules.Override, error) {
	_, _ = s.overrides.update(ctx) // its error is that of OverrideRevisions
	return s.overrides.Override(ctx, ruleSet, id)
}

// ListOverrides implements [rules.Overrides], for the last valid content of the file.
func (s *Source) ListOverrides(ctx context.Context, ruleSet, after string, limit int) (rules.OverridePage, error) {
	_, _ = s.overrides.update(ctx) // its error is that of OverrideRevisions
	return s.overrides.ListOverrides(ctx, ruleSet, after, limit)
}
