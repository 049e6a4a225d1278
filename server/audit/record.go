package audit

import (
	"encoding/json"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Outcome is what came of an operation.
type Outcome string

// The outcomes.
const (
	Changed   Outcome = "changed"
	Unchanged Outcome = "unchanged" // it was so already
	Refused   Outcome = "refused"   // the caller may not, or asked for what cannot be
	Failed    Outcome = "failed"    // it was tried and did not work
)

// Record is one thing that was done, or was not.
type Record struct {
	// Seq counts the records of one process. The log gives it.
	Seq uint64 `json:"seq" doc:"Counts the records of one server."`
	// Time is now, unless it says otherwise.
	Time time.Time `json:"time" doc:"When."`
	// Who is the name of the caller, and From its address.
	Who  string `json:"who" doc:"Who asked."`
	From string `json:"from,omitempty" doc:"From which address."`
	// Operation is the id of what was asked for.
	Operation string `json:"operation" doc:"What was asked for, by its operation id."`
	// RuleSet and Rule are what it was about.
	RuleSet string `json:"ruleSet,omitempty" doc:"The rule set it was about."`
	Rule    string `json:"rule,omitempty" doc:"The rule it was about."`
	// Key is the bucket that was reset, as it is shown; without one it was
	// all of the rule, or of the rule set.
	Key     string  `json:"key,omitempty" doc:"The bucket that was reset; left out, all of the rule or the rule set."`
	Outcome Outcome `json:"outcome" enum:"changed,unchanged,refused,failed" doc:"What came of it."`
	// Status is that of the answer, and Detail what it said.
	Status int    `json:"status,omitempty" doc:"The status of the answer."`
	Detail string `json:"detail,omitempty" doc:"What the answer said."`
	// Before and After are revisions of the rule set. 0 means that there was
	// none.
	Before int64 `json:"before,omitempty" doc:"The revision before; left out if there was none."`
	After  int64 `json:"after,omitempty" doc:"The revision after."`
	// Comment is why, as the history has it.
	Comment string `json:"comment,omitempty" doc:"Why, as the history has it."`
	// Changes are what is different, as JSON.
	Changes json.RawMessage `json:"changes,omitempty" doc:"What is different, rule by rule."`
}

// Bounds of a record, in bytes of its JSON.
const (
	maxText    = 1 << 10
	maxChanges = 64 << 10
)

// bound cuts what is too long.
func (r *Record) bound() {
	for _, text := range []*string{&r.Who, &r.From, &r.Operation, &r.RuleSet, &r.Rule, &r.Key, (*string)(&r.Outcome), &r.Detail, &r.Comment} {
		*text = cut(*text)
	}
	given := len(r.Changes)
	if given == 0 {
		return
	}
	omitted := json.RawMessage(`{"omittedBytes":` + strconv.Itoa(given) + `}`)
	if given > maxChanges {
		r.Changes = omitted
		return
	}
	// It is a copy: the caller's may be a part of something large.
	switch text, err := json.Marshal(r.Changes); {
	case err != nil:
		r.Changes = json.RawMessage(`{"unreadableBytes":` + strconv.Itoa(given) + `}`)
	case len(text) > maxChanges:
		r.Changes = omitted
	default:
		r.Changes = text
	}
}

// cut is a text that is at most maxText bytes of JSON, in whole characters, and
// garbles no terminal: what is not graphic is replaced. It is a copy, so that a
// long one is not kept for the sake of its beginning.
func cut(s string) string {
	const mark = "…"
	var text strings.Builder
	size, short := 0, 0
	for _, c := range s {
		if !unicode.IsGraphic(c) && c != '\n' && c != '\t' {
			c = utf8.RuneError
		}
		if size += sizeInJSON(c); size > maxText {
			return text.String()[:short] + mark
		}
		text.WriteRune(c)
		if size <= maxText-len(mark) {
			short = text.Len()
		}
	}
	return text.String()
}

// sizeInJSON is how many bytes a character is that cut leaves as it is.
func sizeInJSON(c rune) int {
	switch c {
	case '"', '\\', '\n', '\t':
		return 2
	case '<', '>', '&':
		return len(`\u003c`)
	}
	return utf8.RuneLen(c)
}

// attributes are a record as the server's log has it.
func (r *Record) attributes() []slog.Attr {
	all := []slog.Attr{slog.Uint64("seq", r.Seq), slog.String("who", r.Who), slog.String("operation", r.Operation), slog.String("outcome", string(r.Outcome))}
	for _, field := range []struct{ name, value string }{
		{"from", r.From}, {"ruleSet", r.RuleSet}, {"rule", r.Rule}, {"key", r.Key}, {"detail", r.Detail}, {"comment", r.Comment},
	} {
		if field.value != "" {
			all = append(all, slog.String(field.name, field.value))
		}
	}
	for _, field := range []struct {
		name  string
		value int64
	}{{"status", int64(r.Status)}, {"before", r.Before}, {"after", r.After}} {
		if field.value != 0 {
			all = append(all, slog.Int64(field.name, field.value))
		}
	}
	if len(r.Changes) > 0 {
		all = append(all, slog.Any("changes", r.Changes))
	}
	return all
}

// size is about how much memory a record takes.
func (r *Record) size() int {
	const fields = 256
	return fields + len(r.Who) + len(r.From) + len(r.Operation) + len(r.RuleSet) + len(r.Rule) + len(r.Key) + len(r.Comment) + len(r.Outcome) + len(r.Detail) + len(r.Changes)
}
