package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/fluxgate/fluxgate/internal/printable"
)

// maxNamedRules bounds how many rules health names for one reason.
const maxNamedRules = 20

// notForProxies names the rules with limits of concurrent requests that were not enforced in the
// last hour for requests of forward-auth and of Envoy. It logs each of them once.
func (a *App) notForProxies() []string {
	engine := a.plane.Engine()
	if engine == nil {
		return nil
	}
	found := engine.NotEnforced()
	var warnings []string
	for i, rule := range found {
		if i < maxNamedRules {
			warnings = append(warnings, fmt.Sprintf("rule %s of rule set %s: its limit of concurrent requests is not enforced for "+
				"requests of proxies, which do not report the end of a request; see ratelimit.proxy-slots",
				printable.Quote(rule.Rule), printable.Quote(rule.RuleSet)))
		}
		if !slices.Contains(a.unenforced, rule) {
			a.log.Log(context.Background(), slog.LevelWarn, "limit of concurrent requests is not enforced for requests of proxies: "+
				"they do not report the end of a request (ratelimit.proxy-slots)", "ruleSet", rule.RuleSet, "rule", rule.Rule)
		}
	}
	if more := len(found) - maxNamedRules; more > 0 {
		warnings = append(warnings, fmt.Sprintf("%d more rules: their limits of concurrent requests are not enforced for proxies", more))
	}
	a.unenforced = found
	return warnings
}
