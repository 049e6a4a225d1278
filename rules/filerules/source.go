package filerules

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/fluxgate/fluxgate/internal/background"
	"github.com/fluxgate/fluxgate/internal/rulecontent"
	"github.com/fluxgate/fluxgate/rules"
)

// Config configures a [Source]. Its zero value works.
type Config struct {
	// Interval is how often the content is read even if the files' metadata is
	// unchanged. 0 means 10s.
	Interval time.Duration
	// Settle is how long content must not change before it is used, because a
	// file that is written in place is incomplete for a moment. 0 means 50ms.
	Settle time.Duration
	// Within is a folder that the files must be in, also behind symbolic links. Set it if
	// the authors of the files must not read other files. Empty means no such check.
	Within string
	// MaxFiles is the maximum number of files in a folder. 0 means 10,000.
	MaxFiles int
	// Parse parses files of another format. Nil means [Parse]. Its error should be a
	// [NewError].
	Parse func(name string, data []byte) ([]*rules.Set, error)
	// Warns is whether new content is read as a whole for [Source.Warnings], which takes a second
	// for 10,000 rules.
	Warns bool
}

// Source is a [rules.Source] of files. All of its methods return an error while any file has a
// problem, even in another rule set: an [*Error].
type Source struct {
	rulecontent.Reader
	path   string
	config Config

	pause func(context.Context, time.Duration) error // tests replace it

	// lock is a mutex whose wait ends with a context. It guards the fields below.
	lock chan struct{}
	// current is the last content that was read, good the last valid one. Either
	// may be nil.
	current, good *state
}

var _ rules.Watcher = (*Source)(nil)

// Open returns a source of a file or a folder. It reads nothing yet. The path need
// not exist: a server may have to start without it.
func Open(path string, config Config) (*Source, error) {
	if path == "" {
		return nil, errors.New("opening rules: the path is empty")
	}
	if config.Interval < 0 || config.Settle < 0 {
		return nil, errors.New("opening rules: Interval and Settle must not be negative")
	}
	config.Interval = cmp.Or(config.Interval, 10*time.Second)
	config.Settle = cmp.Or(config.Settle, 50*time.Millisecond)
	s := &Source{path: filepath.Clean(path), config: config, lock: make(chan struct{}, 1), pause: background.Sleep}
	s.Reader = rulecontent.Reader{Name: "in " + s.path, Read: func(ctx context.Context) (*rulecontent.Content, error) {
		now, err := s.refresh(ctx)
		if err != nil {
			return nil, err
		}
		return &now.Content, nil
	}}
	return s, nil
}
