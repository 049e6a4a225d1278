package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/insight"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// reports reads what the servers report of themselves.
func (d *diagnosis) reports(ctx context.Context, store *redisstore.Store) {
	var err error
	if d.fleet, err = insight.Servers(ctx, store); err != nil {
		d.add(Watch, "servers", redisRemedy(err), "cannot read the reports of the servers: %v", err)
		return
	}
	live, expected := len(d.fleet), d.config.Redis.ExpectedServers
	switch {
	case live == 0:
	case live < expected:
		d.add(Watch, "servers", "start the others, or correct the setting", "redis.expected-servers is %d, but only %d %s to Redis",
			expected, live, report(live))
	default:
		d.add(Good, "servers", "", "%d %s to Redis", live, report(live))
	}
	if live > 1 && d.config.Settle.ReceiptSecretFile == "" {
		d.add(Watch, "receipts", "set it to a file with the same secret on all servers",
			"settle.receipt-secret-file is not set: each server refuses the receipts of the others, and those from before its start")
	}
	for _, s := range d.fleet {
		if s.Status != "" && s.Reason != "" {
			d.add(Watch, "servers", "see its log", "%s (version %s) is %s: %s", s.Name, s.Version, s.Status, s.Reason)
		}
	}
	lost, err := insight.Lost(ctx, store)
	if err != nil {
		d.add(Watch, "servers", redisRemedy(err), "cannot read the reports of lost servers: %v", err)
	}
	for _, s := range lost {
		d.add(Watch, "servers", "find out why it ended, or cannot reach Redis; nothing to do if it was removed",
			"%s (version %s) is lost since %s; it is named until %s",
			s.Name, s.Version, s.LostAt.Format(time.RFC3339), s.ShownUntil.Format(time.RFC3339))
	}
}

func report(n int) string {
	if n == 1 {
		return "reports"
	}
	return "report"
}

// understood names servers that do not understand the rules.
func (d *diagnosis) understood(set *rules.Set) {
	for _, s := range d.fleet {
		if missing := rules.NotUnderstood(set.Needs(), s.Understands); len(missing) > 0 {
			d.add(Wrong, "servers", "upgrade it", "%s (version %s) does not understand %s, which rule set %q uses: it keeps its last one",
				s.Name, s.Version, strings.Join(missing, ", "), set.ID())
		}
	}
}

// reportDelay is how much older than the state of a server its report may be.
const reportDelay = 10 * time.Second

// revisions names servers that have another revision of a rule set in effect than the source.
func (d *diagnosis) revisions(version *rules.Version) {
	others := map[int64][]string{}
	for _, s := range d.fleet {
		if revision, known := s.Revisions[version.RuleSet.ID()]; known && revision != version.Revision {
			others[revision] = append(others[revision], s.Name)
		}
	}
	if len(others) == 0 {
		return
	}
	var found []string
	for _, revision := range slices.Sorted(maps.Keys(others)) {
		names := others[revision]
		slices.Sort(names)
		found = append(found, fmt.Sprintf("%v on %s", rules.ShownRevision(revision), firstOf(names)))
	}
	severity, remedy := Wrong, "see the health and the log of these servers"
	if ago := time.Since(version.At); d.config.Reload.Enabled && ago < d.config.Reload.PollingInterval+reportDelay {
		severity, remedy = Watch, fmt.Sprintf("run doctor again after %v (reload.polling-interval)", d.config.Reload.PollingInterval)
	}
	d.add(severity, "servers", remedy, "rule set %q is at revision %v in the source, but at %s",
		version.RuleSet.ID(), rules.ShownRevision(version.Revision), strings.Join(found, ", "))
}

// firstOf writes the first names of a list.
func firstOf(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
