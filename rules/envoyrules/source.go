package envoyrules

import (
	"log/slog"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// Open returns a source of a file, or of a folder of files with one domain each. Notes of
// [Parse] are logged as warnings each time that a file has changed. config is that of
// package filerules, whose Parse is replaced.
func Open(path string, o Options, config filerules.Config, log *slog.Logger) (*filerules.Source, error) {
	config.Parse = Parser(o, func(n Remark) {
		log.Warn("envoyproxy/ratelimit configuration: "+n.Message, "file", n.File, "line", n.Line, "place", n.Place)
	})
	return filerules.Open(path, config)
}

// Parser returns [Parse] in the form of [filerules.Config], with a function that gets the
// notes.
func Parser(o Options, note func(Remark)) func(name string, data []byte) ([]*rules.Set, error) {
	return func(name string, data []byte) ([]*rules.Set, error) {
		set, notes, err := Parse(name, data, o)
		for _, n := range notes {
			note(n)
		}
		if err != nil {
			return nil, err
		}
		return []*rules.Set{set}, nil
	}
}
