package model

import (
	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store"
)

// checkNumbers checks that calls and warnings have the numbers of their bucket: those of its rule, or of
// its override in a version that was written. It holds for a gateway that has never seen the caller too.
func (s *spec) checkNumbers() {
	if len(s.Overrides) == 0 {
		return
	}
	written := []int{0}
	for i := range s.facts {
		f := &s.facts[i]
		switch f.Kind {
		case RulesWritten:
			written = append(written, f.Version)
		case StoreTook, StorePeeked, StoreSettled:
			for j := range f.Buckets {
				b := &f.Buckets[j]
				for k := range b.Exact {
					if f.Kind == StoreSettled && b.Exact[k].Kind != bucket.TokenBucket && s.hasRuleNumbers(written, b, k) {
						continue // at a gateway that has never seen the key; these kinds count the same under all numbers
					}
					if e := &b.Exact[k]; !s.hasNumbers(written, b, func(o *store.ExactBand, _ string) bool { return sameNumbers(o, e) }) {
						s.violateOnce(LineOverride, b.Bucket, f.At, "gateway %d calls for bucket %s with a capacity of %d, which it has in no version", f.Gateway, b.Bucket, e.Limit/max(1, e.Unit))
					}
				}
			}
		case StoreWarned:
			b, w := &f.Buckets[0], f.Warning
			if !s.hasNumbers(written, b, func(o *store.ExactBand, name string) bool { return o.Capacity == w.Capacity && name == w.Band }) {
				s.violateOnce(LineOverride, b.Bucket, f.At, "gateway %d warns that bucket %s has used %d of %d, and it has another capacity in all versions", f.Gateway, b.Bucket, w.Used, w.Capacity)
			}
		}
	}
}

// hasNumbers reports whether a band of a bucket in some versions fits.
func (s *spec) hasNumbers(versions []int, b *BucketFact, fits func(e *store.ExactBand, name string) bool) bool {
	for _, version := range versions {
		r := s.ruleIn(version, b.Rule)
		if r == nil {
			continue
		}
		for _, ended := range []bool{false, true} {
			for j, numbers := range s.numbers(version, r, b.Bucket, ended) {
				if exact, err := r.Exact(numbers, j); err == nil && fits(&exact, r.Bands[j].Name()) {
					return true
				}
			}
		}
	}
	return false
}

// sameNumbers reports whether two bands are the same but for their units: charges have others.
func sameNumbers(a, b *store.ExactBand) bool {
	return a.Kind == b.Kind && (a.ID == b.ID || a.Kind == bucket.Concurrency) && a.Limit == b.Limit && a.Period == b.Period && a.Tokens == b.Tokens
}

// byAPIKey reports whether a rule counts by API key in one of its versions.
func (s *spec) byAPIKey(rule string) bool {
	for _, version := range s.Versions {
		for i := range version {
			if version[i].ID == rule && version[i].Scope == rules.ScopeAPIKey {
				return true
			}
		}
	}
	return false
}

// hasRuleNumbers reports whether a band has the numbers of a rule that counts by API key, whatever the
// overrides.
func (s *spec) hasRuleNumbers(versions []int, b *BucketFact, k int) bool {
	if !s.byAPIKey(b.Rule) {
		return false
	}
	for _, version := range versions {
		r := s.ruleIn(version, b.Rule)
		for j := 0; r != nil && j < len(r.Bands); j++ {
			if exact, err := r.Exact(r.Bands[j], j); err == nil && sameNumbers(&exact, &b.Exact[k]) {
				return true
			}
		}
	}
	return false
}
