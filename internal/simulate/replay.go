package simulate

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/rules"
)

// Config says what to replay.
type Config struct {
	// Proposed are the rules to try out, Current those to compare them with, or nil.
	Proposed, Current *rules.Set
	// Logs are read together, in the order of their times.
	Logs []Input
	// Format is that of all logs. Empty means Auto.
	Format Format
	// Fields maps the fields of JSON lines: ip=client.ip. Parts of a request that it does
	// not have are looked for under common names.
	Fields []string
	// Top is how many callers and minutes are listed. 0 means 5.
	Top int
	// Progress is called every few thousand lines with the number of requests, if it is
	// not nil.
	Progress func(requests int64)
}

// Run replays logs. An error means that there is no report; a log that cannot be read to
// its end is in the report.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	r, err := newReplay(cfg)
	if err != nil {
		return nil, err
	}
	for s := r.merger.next(); s != nil; s = r.merger.next() {
		if err := r.step(ctx, s.entry); err != nil {
			return nil, err
		}
	}
	return r.finish(), nil
}

// replay is a simulation under way.
type replay struct {
	report    *Report
	sources   []*source
	merger    *merger
	proposed  *replica
	current   *replica // or nil
	minutes   topMinutes
	different Difference
}

func newReplay(cfg Config) (*replay, error) {
	if cfg.Proposed == nil || len(cfg.Logs) == 0 {
		return nil, errors.New("a simulation needs rules and a log")
	}
	cfg.Format, cfg.Top = cmp.Or(cfg.Format, Auto), cmp.Or(cfg.Top, 5)
	fields, err := newJSONFields(cfg.Fields)
	if err != nil {
		return nil, err
	}
	r := &replay{report: &Report{BusiestMinutes: []Minute{}}}
	r.minutes = topMinutes{most: cfg.Top, measure: func(m *Minute) int64 { return m.Requests }}
	format := formatter{format: cfg.Format, fields: fields, headers: needsHeaders(cfg.Proposed)}
	if r.proposed, err = newReplica(cfg.Proposed, cfg.Top); err != nil {
		return nil, err
	}
	if cfg.Current != nil {
		format.headers = format.headers || needsHeaders(cfg.Current)
		if r.current, err = newReplica(cfg.Current, cfg.Top); err != nil {
			return nil, err
		}
	}
	for _, in := range cfg.Logs {
		s := newSource(in, format)
		if cfg.Progress != nil {
			s.progress = func() { cfg.Progress(r.report.Requests) }
		}
		r.sources = append(r.sources, s)
	}
	r.merger = newMerger(r.sources)
	return r, nil
}

// needsHeaders reports whether a rule looks at headers.
func needsHeaders(set *rules.Set) bool {
	for r := range set.Rules() {
		isHeader := func(field string) bool { return strings.HasPrefix(field, "header:") }
		if len(r.When.Headers) > 0 || slices.ContainsFunc(r.KeyFields, isHeader) {
			return true
		}
	}
	return false
}

// step decides one request.
func (r *replay) step(ctx context.Context, e *entry) error {
	if r.report.Requests == 0 {
		from := time.UnixMicro(e.micros).UTC()
		r.report.From = &from
	}
	r.report.Requests++
	if e.status == http.StatusTooManyRequests {
		r.report.Logged429++
	}
	limited, err := r.proposed.decide(ctx, e)
	if err != nil {
		return err
	}
	byCurrent := false
	if r.current != nil {
		if byCurrent, err = r.current.decide(ctx, e); err != nil {
			return err
		}
		r.different.add(limited, byCurrent)
		r.current.count(e, !limited)
	}
	r.proposed.count(e, r.current != nil && !byCurrent)
	r.count(e, limited, byCurrent)
	return nil
}

// count counts the request in its minute.
func (r *replay) count(e *entry, limited, byCurrent bool) {
	m := r.minutes.at(e.micros)
	m.Requests++
	if limited {
		m.Limited++
	}
	if byCurrent {
		m.LimitedByCurrent++
	}
}

func (r *replay) finish() *Report {
	report := r.report
	for _, s := range r.sources {
		report.Logs = append(report.Logs, s.log)
	}
	if report.Requests > 0 {
		to := time.UnixMicro(r.proposed.now).UTC()
		report.To = &to
	}
	r.minutes.close()
	report.BusiestMinutes = append(report.BusiestMinutes, r.minutes.best...)
	report.Proposed = r.proposed.result()
	if r.current != nil {
		result := r.current.result()
		report.Current, report.Difference = &result, &r.different
	}
	return report
}
