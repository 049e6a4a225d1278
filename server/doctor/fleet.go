package doctor

import (
	"context"
	"strings"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// reports reads what the servers report of themselves.
func (d *diagnosis) reports(ctx context.Context, store *redisstore.Store) {
	var err error
	if d.fleet, err = insight.Servers(ctx, store); err != nil {
		d.add(Watch, "servers", redisRemedy(err), "cannot read the reports of the servers: %v", err)
	}
	for _, s := range d.fleet {
		if s.Status != "" && s.Reason != "" {
			d.add(Watch, "servers", "see its log", "%s (version %s) is %s: %s", s.Name, s.Version, s.Status, s.Reason)
		}
	}
}

// understood names servers that do not understand the rules.
func (d *diagnosis) understood(set *rules.Set) {
	for _, s := range d.fleet {
		if missing := rules.NotUnderstood(set.Needs(), s.Understands); len(missing) > 0 {
			d.add(Wrong, "servers", "upgrade it", "%s (version %s) does not understand %s, which the rules use: it keeps its last ones",
				s.Name, s.Version, strings.Join(missing, ", "))
		}
	}
}
