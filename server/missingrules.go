package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fluxgate/fluxgate/server/config"
)

// sourceIDs caches the ids of the rule sets in the source for a second: health may be
// queried by any client.
type sourceIDs struct {
	mu   sync.Mutex
	at   time.Time
	text string
}

// maxSourceIDs is how many ids of the source are shown.
const maxSourceIDs = 10

// explainDown sets the error of rules that are down because the source does not have the
// default rule set. If it cannot be read, its rule sets have the error.
func (f *feed) explainDown(ctx context.Context, h *RulesHealth) {
	if h.Status != statusDown || h.Error != "" || slices.ContainsFunc(h.Sets, func(s RuleSetHealth) bool { return s.Error != "" }) {
		return
	}
	h.Error = fmt.Sprintf("the source has no rule set %s (ratelimit.default-rule-set-id)%s",
		f.config.RateLimit.DefaultRuleSetID, f.inSource(ctx))
}

// inSource says which rule sets the source has, empty if that is not known.
func (f *feed) inSource(ctx context.Context) string {
	c := &f.listed
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) < time.Second {
		return c.text
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	ids, err := f.listSource(ctx)
	switch {
	case err != nil:
		c.text = ""
	case len(ids) == 0:
		c.text = ": it has no rule sets"
	case len(ids) > maxSourceIDs:
		c.text = ": it has " + strings.Join(ids[:maxSourceIDs], ", ") + " and more"
	default:
		c.text = ": it has " + strings.Join(ids, ", ")
	}
	c.at = time.Now()
	return c.text
}

// listSource returns the ids of the first rule sets in the source, one more than is shown
// if there are more.
func (f *feed) listSource(ctx context.Context) (ids []string, err error) {
	editor, err := f.editor()
	if err != nil {
		return nil, err
	}
	entries, err := editor.List(ctx, "", maxSourceIDs+1)
	for i := range entries {
		ids = append(ids, entries[i].RuleSetID)
	}
	return ids, err
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
