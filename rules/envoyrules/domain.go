package envoyrules

// Domain is the configuration of one domain. The fields are those of the YAML.
type Domain struct {
	Domain      string
	Descriptors []Descriptor
}

// Descriptor is an entry of a descriptor, with the entries that can follow it.
type Descriptor struct {
	Key string
	// Value is the value, or foo* for values that begin with foo. Empty means any.
	Value string
	// RateLimit is the limit of descriptors that end with this entry. Nil means none.
	RateLimit   *RateLimit
	Descriptors []Descriptor
	// ShadowMode allows requests above the limit. QuotaMode allows them unless all descriptors
	// of the call with QuotaMode are above their limits.
	ShadowMode, QuotaMode bool
	// DetailedMetric and ValueToMetric are about the names of statistics.
	DetailedMetric, ValueToMetric bool
	// ShareThreshold counts all values of a wildcard together.
	ShareThreshold bool
	// Metadata is user data about the limit.
	Metadata map[string]any
}

// RateLimit is a limit.
type RateLimit struct {
	// Unit is second, minute, hour, day, week, month or year, in any case.
	Unit            string
	RequestsPerUnit uint32
	// Unlimited descriptors have no unit and are always allowed.
	Unlimited bool
	// Name is the name for Replaces of other limits.
	Name     string
	Replaces []string
}

// Attributes of the rules, for values without a field of their own.
const (
	// AttributeName is the name of the limit.
	AttributeName = "envoy.name"
	// AttributeMetadata is the metadata.
	AttributeMetadata = "envoy.metadata"
)

// Options configure the conversion of limits to rules.
type Options struct {
	// TokenBuckets makes token buckets, which refill evenly, instead of counters
	// that restart with each unit.
	TokenBuckets bool
}
