package fluxgate

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/internal/syntax"
)

const (
	maxIDLength = 64
	// maxListed bounds every list of a rule but the identity sets.
	maxListed = 256
	// maxIdentities bounds when.users, when.apiKeys and when.ips.
	maxIdentities = 10_000
	// maxCrossing bounds the patterns with more than one **: a path is compared
	// with them at each of its segments.
	maxCrossing = 500
	// maxValueLength bounds every string of a rule.
	maxValueLength = 1_024
)

// validate looks at a whole rule set and collects everything that is wrong.
func validate(id string, rules []Rule, found *problems) {
	checkID(found, "id", id)
	if len(rules) > MaxRules {
		found.add("rules", "must be at most %d, not %d", MaxRules, len(rules))
		return
	}
	seen := make(map[string]int, len(rules))
	crossing := 0 // patterns with more than one "**"
	for i := range rules {
		r := &rules[i]
		place := fmt.Sprintf("rules[%d]", i)
		if first, again := seen[r.ID]; again && r.ID != "" {
			found.add(place+".id", "%s is already the id of rules[%d]", quote(r.ID), first)
		} else {
			seen[r.ID] = i
		}
		if r.RuleSetID != id {
			found.add(place+".ruleSetId", "must be %s, the rule set it stands in, not %s", quote(id), quote(r.RuleSetID))
		}
		validateRule(r, place, found)
		for _, pattern := range slices.Concat(r.Paths, r.When.ExcludePaths) {
			if strings.Count(pattern, "**") > 1 && match.CrossesTwice(pattern) {
				crossing++
			}
		}
	}
	if crossing > maxCrossing {
		found.add("rules", "have %d path patterns with more than one **, at most %d are possible", crossing, maxCrossing)
	}
}

func validateRule(r *Rule, place string, found *problems) {
	checkID(found, place+".id", r.ID)
	if r.Group != "" {
		checkID(found, place+".group", r.Group)
	}
	validatePatterns(r.Paths, place+".paths", found)
	if checkLength(found, place+".methods", len(r.Methods), maxListed) {
		for i, m := range r.Methods {
			if m != "*" && !isToken(m) {
				found.add(fmt.Sprintf("%s.methods[%d]", place, i), "must be an HTTP method such as GET, not %s", quote(m))
			}
		}
	}
	validateWhen(&r.When, place+".when", found)
	validateKeyFields(r, place, found)
	validateBands(r, place, found)
	validateAttribute(r.Attributes, place+".attributes", 0, found)
	checkEnum(found, place+".limitScope", r.Scope, ScopeGlobal, ScopeIP, ScopeUser, ScopeAPIKey, ScopeComposite, ScopeCustom)
	checkEnum(found, place+".action", r.Action, "", ActionLimit, ActionAllow, ActionDeny)
	checkEnum(found, place+".mode", r.Mode, "", ModeEnforce, ModeShadow)
	checkEnum(found, place+".onLimitExceed", r.OnLimitExceed, "", Reject, WaitForRefill)
	checkEnum(found, place+".onFailure", r.OnFailure, "", FailLocal, FailOpen, FailClosed)
	checkEnum(found, place+".onMissingIdentity", r.OnMissingIdentity, "", MissingIP, MissingAnonymous, MissingRefuse)
}

func validatePatterns(patterns []string, place string, found *problems) {
	if !checkLength(found, place, len(patterns), maxListed) {
		return
	}
	for i, p := range patterns {
		if err := match.CheckPattern(p); err != nil {
			found.add(fmt.Sprintf("%s[%d]", place, i), "%v", err)
		}
	}
}

func validateWhen(w *When, place string, found *problems) {
	if checkLength(found, place+".hosts", len(w.Hosts), maxListed) {
		for i, h := range w.Hosts {
			if !syntax.IsHostname(strings.TrimPrefix(h, "*.")) {
				found.add(fmt.Sprintf("%s.hosts[%d]", place, i), "must be a host name such as api.example.com or *.example.com, not %s", quote(h))
			}
		}
	}
	validatePatterns(w.ExcludePaths, place+".excludePaths", found)
	validateValues(w.Headers, place+".headers", isToken, found)
	validateValues(w.Attributes, place+".attributes", isAttributeName, found)
	if checkLength(found, place+".ips", len(w.IPs), maxIdentities) {
		for i, p := range w.IPs {
			if !p.IsValid() {
				found.add(fmt.Sprintf("%s.ips[%d]", place, i), "must be a network such as 10.0.0.0/8")
			}
		}
	}
	validateIdentities(w.Users, place+".users", found)
	validateIdentities(w.APIKeys, place+".apiKeys", found)
	for i, k := range w.APIKeys {
		if digest, ok := strings.CutPrefix(k, digestPrefix); ok {
			if raw, err := hex.DecodeString(digest); err != nil || len(raw) != 32 {
				found.add(fmt.Sprintf("%s.apiKeys[%d]", place, i), "must have 64 hexadecimal digits after sha256:")
			}
		}
	}
}

func validateValues(m map[string][]string, place string, validName func(string) bool, found *problems) {
	if !checkLength(found, place, len(m), maxListed) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		values := m[name]
		at := fmt.Sprintf("%s[%s]", place, quote(name))
		if !validName(name) {
			found.add(at, "is not a valid name")
		}
		if len(values) == 0 {
			found.add(at, `must list at least one value ("*" is any)`)
		}
		if checkLength(found, at, len(values), maxIdentities) {
			for i, v := range values {
				if len(v) > maxValueLength || !utf8.ValidString(v) {
					found.add(fmt.Sprintf("%s[%d]", at, i), "must be at most %d bytes of UTF-8", maxValueLength)
				}
			}
		}
	}
}

func validateIdentities(values []string, place string, found *problems) {
	if !checkLength(found, place, len(values), maxIdentities) {
		return
	}
	for i, v := range values {
		if !isIdentity(v) {
			// The value is not shown: it may be a secret.
			found.add(fmt.Sprintf("%s[%d]", place, i), "must have 1 to %d bytes of UTF-8", maxValueLength)
		}
	}
}

func validateKeyFields(r *Rule, place string, found *problems) {
	at := place + ".compositeKeyFields"
	switch r.Scope {
	case ScopeComposite:
		if len(r.KeyFields) == 0 {
			found.add(at, "must list at least one field for scope %s: %s", ScopeComposite, keyFieldForms)
		}
	case ScopeCustom:
		if len(r.KeyFields) != 1 || !strings.HasPrefix(r.KeyFields[0], "attr:") {
			found.add(at, "must be the one attr:NAME to count by for scope %s", ScopeCustom)
		}
	default:
		if len(r.KeyFields) > 0 {
			found.add(at, "only goes with scope %s or %s", ScopeComposite, ScopeCustom)
		}
	}
	if !checkLength(found, at, len(r.KeyFields), maxKeyFields) {
		return
	}
	for i, f := range r.KeyFields {
		if _, ok := parseKeyField(f); !ok {
			found.add(fmt.Sprintf("%s[%d]", at, i), "must be one of %s, not %s", keyFieldForms, quote(f))
		}
		if slices.Contains(r.KeyFields[:i], f) {
			found.add(fmt.Sprintf("%s[%d]", at, i), "%s is listed twice", quote(f))
		}
	}
}

func validateBands(r *Rule, place string, found *problems) {
	if r.limits() && len(r.Bands) == 0 {
		found.add(place+".bands", "must have at least one band")
	}
	if !checkLength(found, place+".bands", len(r.Bands), MaxBands) {
		return
	}
	ids := map[uint32]int{}
	for i, b := range r.Bands {
		at := fmt.Sprintf("%s.bands[%d]", place, i)
		before := len(*found)
		if b.Label != "" && checkID(found, at+".label", b.Label) {
			if first, taken := ids[b.id(i)]; taken {
				found.add(at+".label", "%s is already the label of bands[%d], or too much like it", quote(b.Label), first)
			}
		}
		ids[b.id(i)] = i
		if b.Kind != "" && b.Kind != TokenBucket {
			found.add(at+".kind", "must be %s, not %s", TokenBucket, quote(string(b.Kind)))
		}
		if b.Capacity < 1 {
			found.add(at+".capacity", "must be at least 1")
		}
		if b.RefillTokens < 0 {
			found.add(at+".refillTokens", "must be at least 1")
		}
		if b.Refill <= 0 {
			found.add(at+".refill", "must be a period such as 1s or 24h")
		}
		if len(*found) > before {
			continue
		}
		if _, err := b.Exact(i); err != nil {
			found.add(at, "%v", err)
		}
	}
}

func checkEnum[T ~string](found *problems, place string, value T, known ...T) {
	if !slices.Contains(known, value) {
		known = slices.DeleteFunc(known, func(v T) bool { return v == "" })
		found.add(place, "must be one of %s, not %s", oneOf(known), quote(string(value)))
	}
}

func checkLength(found *problems, place string, n, most int) bool {
	if n > most {
		found.add(place, "must have at most %d entries, not %d", most, n)
		return false
	}
	return true
}

func checkID(found *problems, place, id string) bool {
	if !ValidID(id) {
		found.add(place, "must be 1 to %d of the characters A-Z a-z 0-9 . _ -, not %s", maxIDLength, quote(id))
		return false
	}
	return true
}

// ValidID reports whether s can be the id of a rule or a rule set, or a label:
// 1 to 64 of A-Z a-z 0-9 . _ -
func ValidID(s string) bool {
	return len(s) > 0 && len(s) <= maxIDLength && syntax.Only(s, "._-")
}

// isToken is what HTTP allows as a method or a header name.
func isToken(s string) bool { return len(s) <= maxIDLength && syntax.IsToken(s) }

func isAttributeName(s string) bool {
	return len(s) > 0 && len(s) <= maxValueLength && utf8.ValidString(s)
}

// isIdentity is what can be a user or an API key.
func isIdentity(s string) bool {
	return len(s) > 0 && len(s) <= maxValueLength && utf8.ValidString(s)
}
