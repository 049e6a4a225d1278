package rules

import (
	"cmp"
	"slices"
)

// What servers understand in rules and buckets, beside the kinds of limits.
const (
	featureUntil  = "until"
	featureWarnAt = "warnAt"
	// FeatureOverrides is needed by overrides, and FeatureSharedOverrides by those of rules that
	// come from a read-only source: see [SharedOverrides].
	FeatureOverrides       = "overrides"
	FeatureSharedOverrides = "shared-overrides"
	// FeatureDescriptorOverrides is needed by overrides for descriptors.
	FeatureDescriptorOverrides = "descriptor-overrides"
)

// Understood returns what this version understands and another may not. Servers report it, so
// that nothing is written that a part of the fleet cannot read.
func Understood() []string {
	return append(kinds(), featureUntil, featureWarnAt, FeatureOverrides, FeatureSharedOverrides, FeatureDescriptorOverrides)
}

func kinds() []string {
	return []string{string(TokenBucket), string(Quota), string(SlidingWindow), string(Concurrency)}
}

// NotUnderstood returns those of needs that a server does not understand. A server that reports
// nothing is of a version that knew the kinds.
func NotUnderstood(needs, understands []string) []string {
	if len(understands) == 0 {
		understands = kinds()
	}
	return slices.DeleteFunc(slices.Clone(needs), func(need string) bool { return slices.Contains(understands, need) })
}

// Needs returns what a server must understand to apply the rule set.
func (s *Set) Needs() (needs []string) {
	add := func(need string) {
		if !slices.Contains(needs, need) {
			needs = append(needs, need)
		}
	}
	for i := range s.rules {
		if !s.rules[i].Until.IsZero() {
			add(featureUntil)
		}
		for _, band := range s.rules[i].Bands {
			add(string(cmp.Or(band.Kind, TokenBucket)))
			if band.WarnAt != (Percents{}) {
				add(featureWarnAt)
			}
		}
	}
	return needs
}
