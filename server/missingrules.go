package server

import (
	"fmt"
	"slices"

	"github.com/fluxgate/fluxgate/server/config"
)

// explainDown sets the error of rules that are down because the source does not have the
// default rule set. If it cannot be read, its rule sets have the error.
func (f *feed) explainDown(h *RulesHealth) {
	if h.Status != statusDown || h.Error != "" || slices.ContainsFunc(h.Sets, func(s RuleSetHealth) bool { return s.Error != "" }) {
		return
	}
	h.Error = fmt.Sprintf("the source has no rule set %s (ratelimit.default-rule-set-id)", f.config.RateLimit.DefaultRuleSetID)
}

// missingRemedy returns what to do about a default rule set that is not loaded.
func missingRemedy(c *config.Config) string {
	if _, path := c.RuleFiles(); path != "" {
		return "add the rule set to " + path + ", or set ratelimit.default-rule-set-id to one that it has"
	}
	if c.RuleSource() == config.SourceRedis {
		return "create it with fluxgate rules apply -f FILE, or set rules.file, mongo.uri or ratelimit.default-rule-set-id"
	}
	return "create it in the rule source, or set ratelimit.default-rule-set-id to one that it has"
}
