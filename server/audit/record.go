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
	Seq uint64 `json:"seq" doc:"The number of the record on this server."`
	// Time is when it was written. The log sets it.
	Time time.Time `json:"time" doc:"When."`
	// Who is the name of the caller, From its address.
	Who  string `json:"who" doc:"The name of the caller."`
	From string `json:"from,omitempty" doc:"The address of the caller."`
	// Operation is the id of the operation.
	Operation string `json:"operation" doc:"The operation id."`
	RuleSet   string `json:"ruleSet,omitempty" doc:"The rule set."`
	Rule      string `json:"rule,omitempty" doc:"The rule."`
	// Key is the bucket that was reset. Empty means all of the rule or the rule
	// set.
	Key     string  `json:"key,omitempty" doc:"The bucket that was reset; absent: all of the rule or the rule set."`
	Outcome Outcome `json:"outcome" enum:"changed,unchanged,refused,failed" doc:"The result."`
	// Status is the status of the answer, Detail its text.
	Status int    `json:"status,omitempty" doc:"The status of the answer."`
	Detail string `json:"detail,omitempty" doc:"The text of the answer."`
	// Before and After are revisions of the rule set. 0 means none.
	Before int64 `json:"before,omitempty" doc:"The revision before; absent if there was none."`
	After  int64 `json:"after,omitempty" doc:"The revision after."`
	// Comment is the reason, as in the history.
	Comment string `json:"comment,omitempty" doc:"The reason, as in the history."`
	// Changes are the differences, as JSON.
	Changes json.RawMessage `json:"changes,omitempty" doc:"The differences, rule by rule."`
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
	// A copy: the caller's may be a part of something large.
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

// size returns about how much memory a record needs, in bytes.
func (r *Record) size() int {
	const fields = 256
	return fields + len(r.Who) + len(r.From) + len(r.Operation) + len(r.RuleSet) + len(r.Rule) + len(r.Key) +
		len(r.Comment) + len(r.Outcome) + len(r.Detail) + len(r.Changes)
}
