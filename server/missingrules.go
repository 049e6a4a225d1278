package server

import "github.com/fluxgate/fluxgate/server/config"

// missingRemedy returns what to do about a default rule set that is not loaded.
func missingRemedy(c *config.Config) string {
	if path := c.RuleFiles(); path != "" {
		return "add the rule set to " + path + ", or set ratelimit.default-rule-set-id to one that it has"
	}
	if c.RuleSource() == config.SourceRedis {
		return "create it with fluxgate rules apply -f FILE, or set rules.file, mongo.uri or ratelimit.default-rule-set-id"
	}
	return "create it in the rule source, or set ratelimit.default-rule-set-id to one that it has"
}
