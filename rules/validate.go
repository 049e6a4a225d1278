package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/calendar"
	"github.com/fluxgate/fluxgate/internal/keyfield"
	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/syntax"
)

const (
	maxIDLength = 64
	// maxListed bounds every list of a rule but the identity sets.
	maxListed = 256
	// maxIdentities bounds when.users, when.apiKeys, when.ips and the exceptions in
	// when.descriptor.
	maxIdentities = 10_000
	// maxCrossing bounds the patterns with more than one **: a path is compared
	// with them at each of its segments.
	maxCrossing = 500
	// maxValueLength bounds every string of a rule.
	maxValueLength = 1_024
)

// validate checks a whole rule set and reports everything that is wrong.
func validate(id string, rules []Rule, found *problems) {
	in := reporter{found: found}
	checkID(in.at("id"), id)
	if len(rules) > MaxRules {
		in.at("rules").add(CodeOutOfRange, "must be at most %d, not %d", MaxRules, len(rules))
		return
	}
	seen := make(map[string]int, len(rules))
	crossing := 0 // patterns with more than one "**"
	for i := range rules {
		r, in := &rules[i], in.at("rules", i)
		if first, again := seen[r.ID]; again && r.ID != "" {
			in.at("id").add(CodeDuplicate, "%s is already the id of rules[%d]", printable.Quote(r.ID), first)
		} else {
			seen[r.ID] = i
		}
		if r.RuleSetID != id {
			in.at("ruleSetId").add(CodeInconsistent, "must be %s, the rule set that the rule is in, not %s",
				printable.Quote(id), printable.Quote(r.RuleSetID))
		}
		validateRule(r, in)
		for _, pattern := range slices.Concat(r.Paths, r.When.ExcludePaths) {
			if strings.Count(pattern, "**") > 1 && match.CrossesTwice(pattern) {
				crossing++
			}
		}
	}
	if crossing > maxCrossing {
		in.at("rules").add(CodeOutOfRange, "have %d path patterns with more than one **, at most %d are allowed", crossing, maxCrossing)
	}
}

func validateRule(r *Rule, in reporter) {
	checkID(in.at("id"), r.ID)
	if r.Group != "" {
		checkID(in.at("group"), r.Group)
	}
	validatePatterns(r.Paths, in.at("paths"))
	checkEach(in.at("methods"), r.Methods, maxListed, func(m string) string {
		return unless(m == "*" || isToken(m), "must be an HTTP method such as GET, not %s", printable.Quote(m))
	})
	validateWhen(&r.When, in.at("when"))
	validateKeyFields(r, in.at("compositeKeyFields"))
	validateBands(r, in.at("bands"))
	if r.Cost != "" {
		checkID(in.at("cost"), r.Cost)
	}
	validateAttribute(r.Attributes, 0, in.at("attributes"))
	checkEnum(in.at("limitScope"), r.Scope, ScopeGlobal, ScopeIP, ScopeUser, ScopeAPIKey, ScopeComposite, ScopeCustom)
	checkEnum(in.at("action"), r.Action, "", ActionLimit, ActionAllow, ActionDeny)
	checkEnum(in.at("mode"), r.Mode, "", ModeEnforce, ModeShadow, ModeAlternative)
	checkEnum(in.at("onLimitExceed"), r.OnLimitExceed, "", Reject, WaitForRefill)
	checkEnum(in.at("onFailure"), r.OnFailure, "", FailLocal, FailOpen, FailClosed)
	checkEnum(in.at("consistency"), r.Consistency, "", ConsistencyAuto, ConsistencyStrict, ConsistencyLeased)
	otherKind := func(b Band) bool { return b.Kind != "" && b.Kind != TokenBucket }
	if r.Consistency == ConsistencyLeased && slices.ContainsFunc(r.Bands, otherKind) {
		in.at("consistency").add(CodeInvalidValue, "cannot be leased: tokens are taken ahead from bands of kind %s only", TokenBucket)
	}
	validateDebits(r, in)
	checkEach(in.at("replaces"), r.Replaces, maxListed, func(id string) string {
		return unless(ValidID(id) && id != r.ID, "must be the id of another rule, not %s", printable.Quote(id))
	})
	checkEnum(in.at("onMissingIdentity"), r.OnMissingIdentity, "", MissingIP, MissingAnonymous, MissingRefuse)
}

// validateDebits checks how refused requests are debited.
func validateDebits(r *Rule, in reporter) {
	if r.Overdraft && slices.ContainsFunc(r.Bands, func(b Band) bool { return b.Kind == Concurrency }) {
		in.at("overdraft").add(CodeInconsistent, "is not possible with bands of kind %s", Concurrency)
	}
	if r.Overdraft && r.OnLimitExceed == WaitForRefill {
		in.at("overdraft").add(CodeInconsistent, "is not possible with onLimitExceed %s: usage cannot wait", WaitForRefill)
	}
	if r.CountRefused && (len(r.Bands) != 1 || r.Bands[0].Kind != Quota || r.Overdraft || r.OnLimitExceed == WaitForRefill) {
		in.at("countRefused").add(CodeInconsistent,
			"needs one band of kind %s, and is not possible with overdraft or onLimitExceed %s", Quota, WaitForRefill)
	}
	if r.Mode == ModeAlternative && !r.CountRefused && r.Action != ActionDeny {
		in.at("mode").add(CodeInconsistent, "%s needs countRefused", ModeAlternative)
	}
}

func validatePatterns(patterns []string, in reporter) {
	checkEach(in, patterns, maxListed, func(p string) string {
		if err := match.CheckPattern(p); err != nil {
			return err.Error()
		}
		return ""
	})
}

func validateKeyFields(r *Rule, in reporter) {
	switch r.Scope {
	case ScopeComposite:
		if len(r.KeyFields) == 0 {
			in.add(CodeRequired, "must list at least one field for scope %s: %s", ScopeComposite, keyfield.Forms)
		}
	case ScopeCustom:
		if len(r.KeyFields) != 1 || !strings.HasPrefix(r.KeyFields[0], "attr:") {
			in.add(CodeRequired, "must be one attr:NAME for scope %s", ScopeCustom)
		}
	default:
		if len(r.KeyFields) > 0 {
			in.add(CodeInconsistent, "is only allowed with scope %s or %s", ScopeComposite, ScopeCustom)
		}
	}
	if !checkLength(in, len(r.KeyFields), keyfield.Most) {
		return
	}
	for i, f := range r.KeyFields {
		if !isKeyField(f) {
			in.at(i).add(CodeInvalidValue, "must be one of %s, not %s", keyfield.Forms, printable.Quote(f))
		}
		if slices.Contains(r.KeyFields[:i], f) {
			in.at(i).add(CodeDuplicate, "%s is listed twice", printable.Quote(f))
		}
	}
}

func validateBands(r *Rule, in reporter) {
	if r.Limits() && len(r.Bands) == 0 {
		in.add(CodeRequired, "must have at least one band")
	}
	if !checkLength(in, len(r.Bands), bucket.MaxBands) {
		return
	}
	ids, slots := map[uint32]int{}, -1
	for i, b := range r.Bands {
		in := in.at(i)
		if b.Kind == Concurrency {
			if slots >= 0 {
				in.at("kind").add(CodeDuplicate, "is already %s for bands[%d]: a rule has at most one such band", Concurrency, slots)
			} else {
				slots = i
			}
		}
		if b.Label != "" && checkID(in.at("label"), b.Label) {
			if first, taken := ids[b.id(i)]; taken {
				in.at("label").add(CodeDuplicate,
					"%s is already the label of bands[%d], or has the same hash: use another label", printable.Quote(b.Label), first)
			}
		}
		ids[b.id(i)] = i
		if b.Capacity < 1 {
			in.at("capacity").add(CodeOutOfRange, "must be at least 1")
		}
		validateKind(&b, in)
		sound := b.Capacity > 0 && b.RefillTokens >= 0 && b.hasLength()
		if _, err := b.Exact(i); sound && err != nil {
			in.add(CodeOutOfRange, "%v", err)
		}
	}
}

// hasLength reports whether the duration is set that the kind of the band needs.
func (b *Band) hasLength() bool {
	switch b.Kind {
	case Quota:
		return true
	case Concurrency:
		return b.Hold != 0
	}
	return b.Refill > 0
}

// validateKind checks the fields that depend on the kind of a band.
func validateKind(b *Band, in reporter) {
	refuse := func(set bool, field string) {
		if set {
			in.at(field).add(CodeInconsistent, "is not possible with kind %s", cmp.Or(b.Kind, TokenBucket))
		}
	}
	refuse(b.Hold != 0 && b.Kind != Concurrency, "hold")
	switch b.Kind {
	case Concurrency:
		if b.Hold == 0 {
			in.at("hold").add(CodeRequired, "is required for kind %s: a duration such as 30s", Concurrency)
		}
	case Quota:
		if b.Period == "" {
			in.at("period").add(CodeRequired, "is required for kind %s: %s", Quota, enum(calendar.Periods))
		} else {
			checkEnum(in.at("period"), b.Period, calendar.Periods...)
		}
		if _, err := calendar.Zone(b.Timezone); err != nil {
			in.at("timezone").add(CodeInvalidValue,
				"must be a name of the IANA time zone database such as Europe/Berlin, not %s", printable.Quote(b.Timezone))
		}
	default:
		checkEnum(in.at("kind"), b.Kind, "", TokenBucket, Quota, SlidingWindow, Concurrency)
		if b.Kind != SlidingWindow && b.RefillTokens < 0 {
			in.at("refillTokens").add(CodeOutOfRange, "must be at least 1")
		}
		if b.Refill <= 0 {
			in.at("refill").add(CodeOutOfRange, "must be a period such as 1s or 24h")
		}
	}
	refuse(b.Refill != 0 && (b.Kind == Quota || b.Kind == Concurrency), "refill")
	refuse(b.RefillTokens != 0 && (b.Kind == Quota || b.Kind == Concurrency || b.Kind == SlidingWindow), "refillTokens")
	refuse(b.Period != "" && b.Kind != Quota, "period")
	refuse(b.Timezone != "" && b.Kind != Quota, "timezone")
	refuse(b.WarnAt != Percents{} && b.Kind != Quota && b.Kind != SlidingWindow, "warnAt")
	last := 0
	for i := range b.WarnAt.texts() {
		if p := b.WarnAt[i]; p <= last || p > 100 {
			in.at("warnAt", i).add(CodeOutOfRange, "must be from 1%% to 100%% and above the one before it, not %d%%", p)
			break
		}
		last = b.WarnAt[i]
	}
}

func checkEnum[T ~string](in reporter, value T, known ...T) {
	if !slices.Contains(known, value) {
		in.add(CodeInvalidValue, "must be one of %s, not %s", enum(known), printable.Quote(string(value)))
	}
}

// enum lists values, except the empty one that means the default.
func enum[T ~string](known []T) string {
	var names []string
	for _, v := range known {
		if v != "" {
			names = append(names, string(v))
		}
	}
	return strings.Join(names, ", ")
}

func checkLength(in reporter, n, most int) bool {
	if n > most {
		in.add(CodeOutOfRange, "must have at most %d entries, not %d", most, n)
		return false
	}
	return true
}

// checkEach reports the message of each value of a list, which is empty for a
// valid value.
func checkEach[T any](in reporter, values []T, most int, wrong func(T) string) {
	if !checkLength(in, len(values), most) {
		return
	}
	for i, v := range values {
		if message := wrong(v); message != "" {
			in.at(i).add(CodeInvalidValue, "%s", message)
		}
	}
}

// unless returns a message, or "" for a valid value.
func unless(right bool, format string, args ...any) string {
	if right {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func checkID(in reporter, id string) bool {
	valid := ValidID(id)
	if !valid {
		code := CodeInvalidValue
		if id == "" {
			code = CodeRequired
		}
		in.add(code, "must be 1 to %d of the characters A-Z a-z 0-9 . _ -, not %s", maxIDLength, printable.Quote(id))
	}
	return valid
}

// ValidID reports whether s can be the id of a rule or a rule set, or a label:
// 1 to 64 of A-Z a-z 0-9 . _ -
func ValidID(s string) bool {
	return len(s) > 0 && len(s) <= maxIDLength && syntax.Only(s, "._-")
}

// isToken is what can be an HTTP method or the name of a header.
func isToken(s string) bool { return len(s) <= maxIDLength && syntax.IsToken(s) }

func isKeyField(s string) bool {
	f, ok := keyfield.Parse(s)
	switch f.Kind {
	case keyfield.Header:
		return isToken(f.Name)
	case keyfield.Attribute, keyfield.DescriptorEntry:
		return isIdentity(f.Name)
	}
	return ok
}

// isIdentity is what can be a user, an API key or the name of an attribute.
func isIdentity(s string) bool {
	return len(s) > 0 && len(s) <= maxValueLength && utf8.ValidString(s)
}

// wrongIdentity does not show the value: it may be a secret.
func wrongIdentity(s string) string {
	return unless(isIdentity(s), "must have 1 to %d bytes of UTF-8", maxValueLength)
}
