package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/fluxgate/fluxgate/internal/keyfield"
	"github.com/fluxgate/fluxgate/internal/match"
	"github.com/fluxgate/fluxgate/internal/printable"
	"github.com/fluxgate/fluxgate/internal/syntax"
)

// When has the conditions of a rule. All that are set must hold.
type When struct {
	Hosts []string `json:"hosts,omitempty" nullable:"false" doc:"Names, or *.example.com for every name below it."`
	// A path that routers may read in several ways is left out only if all readings are.
	ExcludePaths []string            `json:"excludePaths,omitempty" nullable:"false" doc:"Patterns that the rule leaves out."`
	Headers      map[string][]string `json:"headers,omitempty" doc:"What the request must carry, and the values it may have; * is any."`
	Attributes   map[string][]string `json:"attributes,omitempty" doc:"Attributes of the request, and the values they may have; * is any."`
	IPs          []netip.Prefix      `json:"ips,omitempty" nullable:"false" doc:"Networks that the client is in, such as 10.0.0.0/8."`
	Users        []string            `json:"users,omitempty" nullable:"false" doc:"User ids."`
	// Only digests are kept, so that no output of a rule set shows a key.
	APIKeys    []string          `json:"apiKeys,omitempty" nullable:"false" doc:"API keys, or sha256: and 64 digits, as they are kept."`
	Descriptor []DescriptorMatch `json:"descriptor,omitempty" nullable:"false" doc:"All entries of the request's descriptor, in order."`
}

// The functions down to Matching have a line for each condition.

func (w *When) isEmpty() bool {
	return len(w.Hosts)+len(w.ExcludePaths)+len(w.Headers)+len(w.Attributes)+
		len(w.IPs)+len(w.Users)+len(w.APIKeys)+len(w.Descriptor) == 0
}

func (w *When) clone() {
	w.Hosts = slices.Clone(w.Hosts)
	w.ExcludePaths = slices.Clone(w.ExcludePaths)
	w.Headers = cloneValues(w.Headers)
	w.Attributes = cloneValues(w.Attributes)
	w.IPs = slices.Clone(w.IPs)
	w.Users = slices.Clone(w.Users)
	w.APIKeys = digestAPIKeys(w.APIKeys)
	w.Descriptor = cloneDescriptor(w.Descriptor)
}

func decodeWhen(o *object) When {
	w := When{
		Hosts:        o.texts("hosts"),
		ExcludePaths: o.texts("excludePaths"),
		Headers:      o.values("headers"),
		Attributes:   o.values("attributes"),
		Users:        o.texts("users"),
		APIKeys:      o.texts("apiKeys"),
	}
	w.Descriptor = o.descriptor("descriptor") // problems of these two come last
	w.IPs = o.networks("ips")
	o.refuseUnknown()
	return w
}

func validateWhen(w *When, in reporter) {
	checkEach(in.at("hosts"), w.Hosts, maxListed, wrongHost)
	validatePatterns(w.ExcludePaths, in.at("excludePaths"))
	validateValues(w.Headers, isToken, in.at("headers"))
	validateValues(w.Attributes, isIdentity, in.at("attributes"))
	checkEach(in.at("ips"), w.IPs, maxIdentities, wrongNetwork)
	validateDescriptor(w.Descriptor, in.at("descriptor"))
	checkEach(in.at("users"), w.Users, maxIdentities, wrongIdentity)
	checkEach(in.at("apiKeys"), w.APIKeys, maxIdentities, wrongAPIKey)
}

// Matching returns the conditions of the rule for the matcher.
func (r *Rule) Matching() match.Rule {
	w := &r.When
	return match.Rule{
		Paths: r.Paths, IgnoreCase: r.IgnoreCase, Group: r.Group, Shadow: r.Mode == ModeShadow, Final: !r.Limits(),
		Conditions: []match.Condition{
			match.Until(r.Until),
			match.Methods(r.Methods),
			match.Hosts(w.Hosts),
			match.ExcludePaths(w.ExcludePaths),
			match.Headers(w.Headers),
			match.Attributes(w.Attributes),
			match.Descriptor(w.Descriptor),
			match.IPs(w.IPs),
			match.OneOf{Text: match.User, Why: match.ObstacleUser, Values: w.Users},
			match.APIKeys(w.APIKeys),
		},
	}
}

// digestAPIKeys is a copy of API keys in which each is a digest in lower case.
// Invalid ones stay as they are, for validation.
func digestAPIKeys(keys []string) []string {
	keys = slices.Clone(keys)
	if len(keys) > maxIdentities {
		return keys
	}
	for i, key := range keys {
		if isIdentity(key) {
			keys[i] = DigestAPIKey(key)
		}
	}
	return keys
}

// DigestAPIKey returns the digest of an API key or another secret, as it is kept. That of a digest is itself,
// in lower case.
func DigestAPIKey(key string) string {
	if strings.HasPrefix(key, keyfield.DigestPrefix) {
		return strings.ToLower(key)
	}
	sum := sha256.Sum256([]byte(key))
	return keyfield.DigestPrefix + hex.EncodeToString(sum[:])
}

func cloneValues(m map[string][]string) map[string][]string {
	m = maps.Clone(m)
	for name, values := range m {
		m[name] = slices.Clone(values)
	}
	return m
}

func wrongAPIKey(s string) string {
	if digest, ok := strings.CutPrefix(s, keyfield.DigestPrefix); ok {
		if raw, err := hex.DecodeString(digest); err != nil || len(raw) != sha256.Size {
			return "must have 64 hexadecimal digits after sha256:"
		}
	}
	return wrongIdentity(s)
}

func wrongHost(s string) string {
	name := strings.TrimPrefix(s, "*.")
	return unless(syntax.IsHostname(name) && name[0] != '.' && len(name) < 253,
		"must be a host name such as api.example.com or *.example.com, not %s", printable.Quote(s))
}

func wrongNetwork(p netip.Prefix) string {
	if p.Addr().Is4In6() && p.Bits() < 96 {
		return "must be an IPv4 or an IPv6 network, not both"
	}
	return unless(p.IsValid(), "must be a network such as 10.0.0.0/8")
}

func (o *object) networks(name string) (list []netip.Prefix) {
	for i, s := range o.texts(name) {
		prefix, err := parsePrefix(s)
		if err != nil {
			o.at(name, i).add(CodeInvalidValue, "must be a network such as 10.0.0.0/8 or an address, not %s", printable.Quote(s))
			continue
		}
		list = append(list, prefix)
	}
	return list
}

// parsePrefix reads a network, or an address as a network of one.
func parsePrefix(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		return netip.ParsePrefix(s)
	}
	addr, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	addr = addr.WithZone("")
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

func validateValues(m map[string][]string, validName func(string) bool, in reporter) {
	if !checkLength(in, len(m), maxListed) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		values, in := m[name], in.at(name)
		if !validName(name) {
			in.add(CodeInvalidName, "is not a valid name")
		}
		if len(values) == 0 {
			in.add(CodeRequired, `must list at least one value ("*" is any)`)
		}
		checkEach(in, values, maxIdentities, func(v string) string {
			return unless(v == "" || isIdentity(v), "must be at most %d bytes of UTF-8", maxValueLength)
		})
	}
}

// MaxDescriptor is the maximum number of entries in the descriptor of a rule.
const MaxDescriptor = match.MaxDescriptor

// DescriptorMatch matches one entry of a descriptor by its Key and Value. foo* matches
// values that begin with foo. Without a Value every value matches, except those in Except,
// which has values in the same forms.
type DescriptorMatch = match.DescriptorMatch

func cloneDescriptor(list []DescriptorMatch) []DescriptorMatch {
	list = slices.Clone(list)
	for i := range list {
		if list[i].Value == "*" {
			list[i].Value = "" // the same
		}
		list[i].Except = slices.Clone(list[i].Except)
	}
	return list
}

func (o *object) descriptor(name string) (list []DescriptorMatch) {
	for _, entry := range o.objects(name, MaxDescriptor) {
		list = append(list, DescriptorMatch{Key: entry.text("key"), Value: entry.text("value"), Except: entry.texts("except")})
		entry.refuseUnknown()
	}
	return list
}

// validateDescriptor does not show values: one may be a secret.
func validateDescriptor(descriptor []DescriptorMatch, in reporter) {
	if !checkLength(in, len(descriptor), MaxDescriptor) {
		return
	}
	for i := range descriptor {
		m, in := &descriptor[i], in.at(i)
		if m.Key == "" {
			in.at("key").add(CodeRequired, "is required")
		} else if message := wrongIdentity(m.Key); message != "" {
			in.at("key").add(CodeInvalidValue, "%s", message)
		}
		if message := wrongForm(m.Value); m.Value != "" && message != "" {
			in.at("value").add(CodeInvalidValue, "%s", message)
			continue
		}
		begin, open := strings.CutSuffix(m.Value, "*")
		if len(m.Except) > 0 && m.Value != "" && !open {
			in.at("except").add(CodeInconsistent, "is possible only if value is left out or ends with *")
			continue
		}
		checkEach(in.at("except"), m.Except, maxIdentities, func(s string) string {
			if message := wrongForm(s); message != "" {
				return message
			}
			return unless(strings.HasPrefix(s, begin) && s != begin+"*", "must be some of the values that value matches")
		})
	}
}

// wrongForm is about a value, or what values begin with: foo*.
func wrongForm(s string) string {
	if message := wrongIdentity(s); message != "" {
		return message
	}
	return unless(!strings.Contains(s[:len(s)-1], "*"), "must have a * only at its end, as in foo*")
}
