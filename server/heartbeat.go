package server

import (
	"encoding/json"

	"github.com/fluxgate/fluxgate/rules/reload"
)

// maxHeartbeatRuleSets bounds the rule sets of a heartbeat, whose size is bounded.
const maxHeartbeatRuleSets = 10

// heartbeat returns what this server writes about itself into Redis.
func (a *App) heartbeat() string {
	about := struct {
		Version string           `json:"version,omitempty"`
		Rules   map[string]int64 `json:"rules,omitempty"` // revisions by rule set
	}{Version: a.version, Rules: map[string]int64{}}
	for _, s := range a.rules.Status() {
		if s.Source == reload.FromSource && len(about.Rules) < maxHeartbeatRuleSets {
			about.Rules[s.RuleSet] = s.Revision
		}
	}
	text, _ := json.Marshal(about) // strings and numbers: never fails
	return string(text)
}
