package admin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/rules"
)

// applying compares replacing a rule set of ten thousand rules, from the
// request to the answer, with decoding and validating it.
func applying(t *testing.T, report *figure.Report, s *served) {
	t.Helper()
	var base int64
	apply := func() float64 {
		ratio := s.apply(t, base)
		base++
		return ratio
	}
	t.Logf("the first time %.1f times", apply())
	report.AtMost("admin-apply-10000-rules-vs-decoding-and-validating", figure.Median(9, apply), 10, "×")
}

// apply puts another version of the rules on a base and returns the ratio of
// its time to that of decoding and validating.
func (s *served) apply(t *testing.T, base int64) float64 {
	t.Helper()
	set := largest(t, base+1)
	text, err := json.Marshal(set)
	do(t, err)
	control := decoding(t, text)
	start := time.Now()
	revision, err := s.Put(t.Context(), set, rules.Change{Base: base, Comment: "figures"})
	took := time.Since(start)
	do(t, err)
	if revision != base+1 {
		t.Fatalf("revision %d after %d", revision, base)
	}
	return float64(took) / float64(control)
}

// firstOnMongo prints the time of a first version on MongoDB's protocol, where
// every rule is a document too. It is no figure: unlike MongoDB, the server
// used here scans all documents for each changed one.
func firstOnMongo(t *testing.T, s *served) {
	t.Helper()
	t.Logf("the first time on MongoDB's protocol, with a document for every rule: %.1f times", s.apply(t, 0))
}

// decoding is the time to decode and validate a rule set.
func decoding(t *testing.T, text []byte) time.Duration {
	t.Helper()
	start := time.Now()
	_, err := rules.Parse(text)
	do(t, err)
	return time.Since(start)
}

// comparing compares the diff of two revisions of ten thousand rules with
// decoding and validating one.
func comparing(t *testing.T, report *figure.Report, s *served) {
	t.Helper()
	text, err := json.Marshal(largest(t, 1))
	do(t, err)
	last, err := s.History(t.Context(), "largest", 0, 9)
	do(t, err)
	pairs := len(last) - 1 // rules.DefaultHistoryBytes bounds them
	if pairs < figure.Rounds(3) {
		t.Fatalf("the history has %d revisions", len(last))
	}
	i := 0
	ratio := figure.Median(pairs, func() float64 {
		control := decoding(t, text)
		// Each pair once: earlier reads may be cached.
		path := fmt.Sprintf("/v1/rule-sets/largest/diff?from=%d&to=%d", last[i+1].Revision, last[i].Revision)
		i++
		start := time.Now()
		s.get(t, path, func(r *http.Response) {
			var diff struct {
				Changes []json.RawMessage `json:"changes"`
			}
			do(t, json.NewDecoder(r.Body).Decode(&diff))
			if len(diff.Changes) != rules.MaxRules/10 {
				t.Fatalf("%d rules differ", len(diff.Changes))
			}
		})
		return float64(time.Since(start)) / float64(control)
	})
	report.AtMost("admin-diff-of-two-revisions-of-10000-rules-vs-decoding-and-validating", ratio, 10, "×")
}

// listing pages through rules and rule sets, and compares the memory in use at
// the end with the beginning.
func listing(t *testing.T, report *figure.Report, s *served) {
	t.Helper()
	for i := range 2_000 {
		set, err := rules.NewSet(fmt.Sprintf("set-%d", i), rules.Rule{ID: fmt.Sprintf("of-set-%d", i), Bands: []rules.Band{rules.PerMinute(1)}})
		do(t, err)
		_, err = s.Put(t.Context(), set, rules.Change{})
		do(t, err)
	}
	for what, first := range map[string]string{"rules": "/v1/rule-sets/largest/rules?limit=100&offset=%v", "rule-sets": "/v1/rule-sets?limit=20&after=%v"} {
		var next any = 0
		if what == "rule-sets" {
			next = "a" // before all of them
		}
		var least, most uint64
		pages, largest := 0, int64(0)
		for next != nil {
			var page struct {
				Next any `json:"next"`
			}
			s.get(t, fmt.Sprintf(first, next), func(r *http.Response) {
				counted := &counter{Reader: r.Body}
				do(t, json.NewDecoder(counted).Decode(&page))
				largest = max(largest, counted.n)
			})
			next = page.Next
			if pages++; pages > 2 && pages%10 == 0 {
				heap := settled()
				if least == 0 {
					least = heap
				}
				most = max(most, heap)
			}
		}
		t.Logf("%s: %d pages, the largest of %d bytes, heap %d to %d KiB", what, pages, largest, least>>10, most>>10)
		if pages != 100 && pages != 101 {
			t.Errorf("%d pages of %s", pages, what)
		}
		report.AtMost("admin-listing-of-"+what+"-heap-growth-over-100-pages", float64(most-least)/float64(least), 0.1, "×")
	}
}

type counter struct {
	io.Reader
	n int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	return n, err
}

// settled is the memory in use after a garbage collection.
func settled() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
