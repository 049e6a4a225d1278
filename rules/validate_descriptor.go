package rules

import (
	"strings"

	"github.com/fluxgate/fluxgate/internal/match"
)

// MaxDescriptor is how many entries the descriptor of a rule may have.
const MaxDescriptor = match.MaxDescriptor

// validateDescriptor does not show values: one may be a secret.
func validateDescriptor(descriptor []DescriptorMatch, in reporter) {
	if !checkLength(in, len(descriptor), MaxDescriptor) {
		return
	}
	for i := range descriptor {
		m, in := &descriptor[i], in.at(i)
		if m.Key == "" {
			in.at("key").add(CodeRequired, "is required")
		} else if message := wrongIdentity(m.Key); message != "" {
			in.at("key").add(CodeInvalidValue, "%s", message)
		}
		if message := wrongForm(m.Value); m.Value != "" && message != "" {
			in.at("value").add(CodeInvalidValue, "%s", message)
			continue
		}
		begin, open := strings.CutSuffix(m.Value, "*")
		if len(m.Except) > 0 && m.Value != "" && !open {
			in.at("except").add(CodeInconsistent, "is possible only if value is left out or ends with *")
			continue
		}
		checkEach(in.at("except"), m.Except, maxIdentities, func(s string) string {
			if message := wrongForm(s); message != "" {
				return message
			}
			return unless(strings.HasPrefix(s, begin) && s != begin+"*", "must be some of the values that value matches")
		})
	}
}

// wrongForm is about a value, or what values begin with: foo*.
func wrongForm(s string) string {
	if message := wrongIdentity(s); message != "" {
		return message
	}
	return unless(!strings.Contains(s[:len(s)-1], "*"), "must have a * only at its end, as in foo*")
}
