package admin

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"github.com/fluxgate/fluxgate/rules"
)

// ErrReadOnly is wrapped by errors about changes to rules in files.
var ErrReadOnly = errors.New("the rules are in files and cannot be changed here; edit the files, they are loaded when saved")

// Files is a rule source of files.
type Files interface {
	rules.Source
	IDs(ctx context.Context) ([]string, error)
}

// ReadOnly returns an editor of files that rejects changes. Its history is the
// current revision.
func ReadOnly(files Files) rules.Editor { return &readOnly{files} }

type readOnly struct{ Files }

// Put implements [rules.Editor].
func (r *readOnly) Put(context.Context, *rules.Set, rules.Change) (int64, error) {
	return 0, ErrReadOnly
}

// Delete implements [rules.Editor].
func (r *readOnly) Delete(context.Context, string, rules.Change) (int64, error) {
	return 0, ErrReadOnly
}

// List implements [rules.Editor].
func (r *readOnly) List(ctx context.Context, after string, limit int) ([]rules.Entry, error) {
	ids, err := r.IDs(ctx)
	if err != nil {
		return nil, err
	}
	sort.Strings(ids)
	ids = ids[sort.SearchStrings(ids, after+"\x00"):] // ids after it
	var page []rules.Entry
	for _, id := range ids {
		if len(page) == rules.PageSize(limit) {
			break
		}
		v, err := r.Load(ctx, id)
		if errors.Is(err, rules.ErrNotFound) {
			continue // deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		page = append(page, v.Entry)
	}
	return page, nil
}

// History implements [rules.Editor].
func (r *readOnly) History(ctx context.Context, id string, before int64, _ int) ([]rules.Entry, error) {
	v, err := r.Load(ctx, id)
	switch {
	case errors.Is(err, rules.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case before != 0 && v.Revision >= before:
		return nil, nil
	}
	return []rules.Entry{v.Entry}, nil
}

// Version implements [rules.Editor].
func (r *readOnly) Version(ctx context.Context, id string, revision int64) (*rules.Version, error) {
	v, err := r.Load(ctx, id)
	if err == nil && v.Revision != revision {
		err = fmt.Errorf("revision %d of rule set %q: files have no history: %w", revision, id, rules.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}
