package envoyrules

// Domain is the configuration of one domain. The tags are the keys of the YAML, and the names of
// the fields in protocol buffers.
type Domain struct {
	Domain      string       `json:"domain"`
	Descriptors []Descriptor `json:"descriptors"`
}

// Descriptor is an entry of a descriptor, with the entries that can follow it.
type Descriptor struct {
	Key string `json:"key"`
	// Value is the value, or foo* for values that begin with foo. Empty means any.
	Value string `json:"value"`
	// RateLimit is the limit of descriptors that end with this entry. Nil means none.
	RateLimit   *RateLimit   `json:"rate_limit"`
	Descriptors []Descriptor `json:"descriptors"`
	// ShadowMode allows requests above the limit. QuotaMode allows them unless all descriptors
	// of the call with QuotaMode are above their limits.
	ShadowMode bool `json:"shadow_mode"`
	QuotaMode  bool `json:"quota_mode"`
	// DetailedMetric and ValueToMetric are about the names of statistics.
	DetailedMetric bool `json:"detailed_metric"`
	ValueToMetric  bool `json:"value_to_metric"`
	// ShareThreshold counts all values of a wildcard together.
	ShareThreshold bool `json:"share_threshold"`
	// Metadata is user data about the limit.
	Metadata map[string]any `json:"metadata"`
}

// RateLimit is a limit.
type RateLimit struct {
	// Unit is second, minute, hour, day, week, month or year, in any case.
	Unit            string `json:"unit"`
	RequestsPerUnit uint32 `json:"requests_per_unit"`
	// Unlimited descriptors have no unit and are always allowed.
	Unlimited bool `json:"unlimited"`
	// Name is the name for Replaces of other limits.
	Name     string    `json:"name"`
	Replaces []Replace `json:"replaces"`
}

// Replace names a limit that does not apply if another one does.
type Replace struct {
	Name string `json:"name"`
}

// Attributes of the rules, for values without a field of their own.
const (
	// AttributeName is the name of the limit.
	AttributeName = "envoy.name"
	// AttributeMetadata is the metadata.
	AttributeMetadata = "envoy.metadata"
)
