package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fluxgate/fluxgate/internal/amount"
	"github.com/fluxgate/fluxgate/store"
)

// Warning is a limit that has reached a threshold of its warnAt.
type Warning struct {
	ID       string    `json:"id" doc:"The id. A warning that is posted twice has the same."`
	Time     time.Time `json:"time" doc:"When it was seen, by the clock of the store."`
	RuleSet  string    `json:"ruleSet" doc:"The rule set."`
	Rule     string    `json:"rule" doc:"The rule."`
	Limit    string    `json:"limit" doc:"The label of the limit."`
	Percent  int       `json:"percent" doc:"The threshold."`
	Capacity int64     `json:"capacity" doc:"The capacity of the limit. Money is in millionths."`
	Used     int64     `json:"used" doc:"What was used of it."`
	Measure  string    `json:"measure" doc:"What it counts."`
	Text     string    `json:"text" doc:"What was used, for people."`
	Key      string    `json:"key" doc:"The key of the bucket: a salted hash, bound to the rule."`
	Identity string    `json:"identity,omitempty" doc:"The caller, with events.identities."`
	Ends     time.Time `json:"ends" doc:"When the period ends. A warning of a sliding window is repeated from then on."`
}

// WarningOf returns a warning of a store. key is its key as people see it.
func WarningOf(w *store.Warning, key string) Warning {
	text := amount.Floor(w.Used, w.Measure) + " of " + amount.Floor(w.Capacity, w.Measure)
	if !amount.IsMoney(w.Measure) {
		text += " " + w.Measure
	}
	return Warning{
		ID: w.ID, Time: time.UnixMicro(w.At).UTC(), Ends: time.UnixMicro(w.Ends).UTC(),
		RuleSet: w.Key.RuleSet, Rule: w.Key.Rule, Limit: w.Band, Key: key, Identity: w.Identity,
		Percent: w.Percent, Capacity: w.Capacity, Used: w.Used, Measure: w.Measure, Text: text,
	}
}

// Warnings is an answer of the admin API.
type Warnings struct {
	Warnings []Warning `json:"warnings" nullable:"false" doc:"The last warnings of the fleet, newest first."`
}

// MaxWarnings is how many warnings a store keeps to show.
const MaxWarnings = 200

// Warnings implements [Operator].
func (d *Direct) Warnings(ctx context.Context, limit int) ([]Warning, error) {
	engine, err := d.currentEngine()
	if err != nil || d.Recent == nil {
		return nil, err
	}
	found, err := d.Recent(ctx, limit)
	all := make([]Warning, len(found))
	for i := range found {
		all[i] = WarningOf(&found[i], engine.ShowKey(found[i].Key))
	}
	return all, err
}

// Warnings implements [Operator].
func (c *Client) Warnings(ctx context.Context, limit int) ([]Warning, error) {
	op := call{method: http.MethodGet, path: "/v1/warnings", query: url.Values{"limit": {strconv.Itoa(limit)}}}
	answer, err := fetch[Warnings](ctx, c, &op)
	if err != nil {
		return nil, err
	}
	return answer.Warnings, nil
}
