package doctor

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/rules/mongorules"
	"github.com/fluxgate/fluxgate/server/backend"
)

// announcements tries the channel on which changes of rules are announced.
func (d *diagnosis) announcements(ctx context.Context, client redis.UniversalClient) {
	channel := d.config.Reload.Channel
	subscription := client.Subscribe(ctx, channel)
	defer func() { _ = subscription.Close() }()
	if _, err := subscription.ReceiveTimeout(ctx, 2*time.Second); err != nil {
		d.add(Watch, "announcements", redisRemedy(err),
			"changes of rules are found by polling only, within %v: cannot subscribe to the channel %s: %v",
			d.config.Reload.PollingInterval, channel, err)
	}
}

func (d *diagnosis) waiting(set *rules.Set) {
	if ids := backend.NeverWait(d.config, set); ids != "" {
		d.add(Watch, "waiting", "set wait-for-refill.enabled, or remove WAIT_FOR_REFILL from the rules",
			"rule set %q: requests over the limit of %s are rejected at once: WAIT_FOR_REFILL is off", set.ID(), ids)
	}
}

// proxies names the rules whose limits of concurrent requests do not hold for requests of proxies.
func (d *diagnosis) proxies(set *rules.Set) {
	ids := backend.NotForProxies(d.config, set)
	if ids == "" {
		return
	}
	severity := Good // services that use the check API or the library are limited
	if d.config.Server.GRPC != "" || len(d.config.RateLimit.TrustedProxies) > 0 {
		severity = Watch
	}
	d.add(severity, "proxies", "set ratelimit.proxy-slots to hold, if a slot may be taken for the whole hold of its limit",
		"rule set %q: the limits of concurrent requests of %s are not enforced for requests of forward-auth and Envoy, "+
			"which do not report the end of a request", set.ID(), ids)
}

// forgotten is how long after its end a rule may still be there.
const forgotten = 7 * 24 * time.Hour

func (d *diagnosis) ended(set *rules.Set) {
	for r := range set.Rules() {
		if !r.Disabled && !r.Until.IsZero() && time.Since(r.Until) > forgotten {
			d.add(Watch, "ended", "remove the rule", "rule %q of rule set %q has ended at %s", r.ID, set.ID(), r.Until.Format(time.RFC3339))
		}
	}
}

// warnings names a rule set with rules that cannot work as they are written.
func (d *diagnosis) warnings(set *rules.Set) {
	found := set.Warnings()
	if len(found.List) == 0 {
		return
	}
	remedy := "see all with fluxgate rules get " + set.ID() + " | fluxgate rules validate -f -, and " + docsURL + "rule-warnings"
	d.add(Watch, "rule warnings", remedy,
		"rule set %q has %d warnings: %s", set.ID(), len(found.List)+found.More, found.List[0].Text())
}

// setsPatience bounds the check of the rule sets other than the default one.
const setsPatience = time.Minute

// sets checks the rule sets other than the default one, and edits that a server
// would refuse. Files are valid as a whole or not at all.
func (d *diagnosis) sets(ctx context.Context, source rules.Source, first string) {
	ctx, cancel := context.WithTimeout(ctx, setsPatience)
	defer cancel()
	d.examine(ctx, source, first)
	checked := 1
	for page, err := range pages(ctx, source) {
		if err != nil {
			d.add(Wrong, "rules", "check that the rule source is available",
				"cannot list the rule sets; %d were checked, and those after them were not: %v", checked, err)
			return
		}
		page = slices.DeleteFunc(page, func(id string) bool { return id == first })
		done := d.page(ctx, source, page)
		if checked += done; done < len(page) {
			d.add(Wrong, "rules", "run doctor nearer to the rule source",
				"%d rule sets were checked within %v; those after %q in the list were not", checked, setsPatience, page[max(0, done-1)])
			return
		}
	}
	if checked > 1 {
		d.add(Good, "rules", "", "%d rule sets were checked", checked)
	}
}

// pages lists the rule sets of a source.
func pages(ctx context.Context, source rules.Source) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		if files, ok := source.(*filerules.Source); ok {
			if all, err := files.IDs(ctx); err == nil { // else loading the default reports the error
				yield(all, nil)
			}
			return
		}
		editor, ok := source.(rules.Editor)
		for after := ""; ok; {
			entries, err := editor.List(ctx, after, rules.MaxPage)
			var ids []string
			for i := range entries {
				ids = append(ids, entries[i].RuleSetID)
			}
			if ok = err == nil && len(ids) == rules.MaxPage; ok {
				after = ids[len(ids)-1]
			}
			if !yield(ids, err) {
				return
			}
		}
	}
}

// atOnce is how many rule sets are loaded at once.
const atOnce = 8

// page checks rule sets, and returns how many until ctx ended.
func (d *diagnosis) page(ctx context.Context, source rules.Source, ids []string) (checked int) {
	type loaded struct {
		version *rules.Version
		err     error
	}
	for group := range slices.Chunk(ids, atOnce) {
		found := make([]loaded, len(group))
		var loads sync.WaitGroup
		for i, id := range group {
			loads.Go(func() { found[i].version, found[i].err = source.Load(ctx, id) })
		}
		loads.Wait()
		if ctx.Err() != nil {
			return checked
		}
		for i, id := range group {
			d.set(id, found[i].version, found[i].err)
			d.examine(ctx, source, id)
			checked++
		}
	}
	return checked
}

// examine reports edits of documents in MongoDB that a server would refuse.
func (d *diagnosis) examine(ctx context.Context, source rules.Source, id string) {
	mongo, ok := source.(*mongorules.Source)
	if !ok {
		return
	}
	if err := mongo.Examine(ctx, id); err != nil {
		d.add(Wrong, "rules", "correct the documents; the last valid revision stays in effect", "documents of rule set %q: %v", id, err)
	}
}

func (d *diagnosis) set(id string, version *rules.Version, err error) {
	switch {
	case errors.Is(err, rules.ErrNotFound): // deleted meanwhile
	case err != nil:
		d.add(Wrong, "rules", "correct the rules; running servers keep the last valid ones", "rule set %q: %v", id, err)
	default:
		d.content(version)
	}
}

// content checks the rules of a version.
func (d *diagnosis) content(version *rules.Version) {
	d.waiting(version.RuleSet)
	d.proxies(version.RuleSet)
	d.understood(version.RuleSet)
	d.ended(version.RuleSet)
	d.warnings(version.RuleSet)
	d.revisions(version)
}
