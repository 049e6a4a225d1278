package audit

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/fluxgate/fluxgate/internal/printable"
)

// Outcome is the result of an operation.
type Outcome string

// The outcomes.
const (
	Changed   Outcome = "changed"
	Unchanged Outcome = "unchanged" // there was nothing to change
	Refused   Outcome = "refused"   // not allowed, or based on an old revision
	Failed    Outcome = "failed"    // tried without success
)

// Record is one operation: a change, or a rejected attempt.
type Record struct {
	// Seq numbers the records of one process. The log sets it.
	Seq uint64 `json:"seq"`
	// Time is when it was written. The log sets it.
	Time time.Time `json:"time"`
	// Who is the name of the caller, From its address.
	Who  string `json:"who"`
	From string `json:"from,omitempty"`
	// Operation is the id of the operation.
	Operation string `json:"operation"`
	RuleSet   string `json:"ruleSet,omitempty"`
	Rule      string `json:"rule,omitempty"`
	// Key is the bucket that was reset. Empty means all of the rule or the rule
	// set.
	Key     string  `json:"key,omitempty"`
	Outcome Outcome `json:"outcome"`
	// Status is the status of the answer, Detail its text.
	Status int    `json:"status,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Before and After are revisions of the rule set. 0 means none.
	Before int64 `json:"before,omitempty"`
	After  int64 `json:"after,omitempty"`
	// Comment is the reason, as in the history.
	Comment string `json:"comment,omitempty"`
	// Changes are the differences, as JSON.
	Changes json.RawMessage `json:"changes,omitempty"`
}

// Bounds of a record: of its texts in characters, and of its changes in bytes.
const (
	maxText    = 1_000
	maxChanges = 64 << 10
)

// bound cuts texts and changes that are too long.
func (r *Record) bound() {
	for _, text := range []*string{
		&r.Who, &r.From, &r.Operation, &r.RuleSet, &r.Rule, &r.Key, (*string)(&r.Outcome), &r.Detail, &r.Comment,
	} {
		*text = printable.Text(*text, maxText)
	}
	if len(r.Changes) == 0 {
		return
	}
	given := strconv.Itoa(len(r.Changes))
	switch text, err := json.Marshal(r.Changes); {
	case err != nil:
		r.Changes = json.RawMessage(`{"unreadableBytes":` + given + `}`)
	case len(text) > maxChanges:
		r.Changes = json.RawMessage(`{"omittedBytes":` + given + `}`)
	default:
		r.Changes = text
	}
}

// attributes returns the fields that are set, for the server's log.
func (r *Record) attributes() []slog.Attr {
	all := []slog.Attr{
		slog.Uint64("seq", r.Seq), slog.String("who", r.Who), slog.String("operation", r.Operation),
		slog.String("outcome", string(r.Outcome)),
		slog.String("from", r.From), slog.String("ruleSet", r.RuleSet), slog.String("rule", r.Rule), slog.String("key", r.Key),
		slog.String("detail", r.Detail), slog.String("comment", r.Comment),
		slog.Int("status", r.Status), slog.Int64("before", r.Before), slog.Int64("after", r.After),
	}
	if len(r.Changes) > 0 {
		all = append(all, slog.Any("changes", r.Changes))
	}
	return slices.DeleteFunc(all, func(a slog.Attr) bool {
		return a.Value.Equal(slog.StringValue("")) || a.Value.Equal(slog.Int64Value(0))
	})
}
