package benchmarks

import (
	"context"
	"time"
)

// limit is a token bucket: tokens at once, and as many again in a period. Limiters
// without buckets allow so many in a period.
type limit struct {
	tokens int64
	period time.Duration
}

// workload is a kind of requests and the limits that decide about them.
type workload struct {
	name   string
	limits []limit // each by a key of its own; all must admit
}

const day = 24 * time.Hour

// The limits of cold and hot are above any demand. Their periods are units of
// envoyproxy/ratelimit.
var (
	cold      = &workload{"cold", []limit{{1_000, time.Minute}}}
	hot       = &workload{"hot", []limit{{10_000_000, time.Minute}}}
	blocked   = &workload{"blocked", []limit{{10, day}}}
	saturated = &workload{"saturated", []limit{{100, time.Second}}}
	paired    = &workload{"paired", []limit{{100, day}, {300, day}}}

	workloads = []*workload{cold, hot, blocked, saturated, paired}
)

// contender is a limiter that is compared.
type contender struct {
	name string
	// allow decides a request with a key for each limit of a workload.
	allow func(ctx context.Context, w *workload, keys ...string) (bool, error)
}

// The contenders in the order of the page.
const (
	nameStrict    = "FluxGate, strict"
	nameLeases    = "FluxGate, leases"
	nameRedisRate = "redis_rate"
	nameThrottled = "throttled"
	nameHTTPRate  = "httprate"
	nameServer    = "FluxGate server"
	nameRatelimit = "envoyproxy/ratelimit"
)

var (
	libraries   = []string{nameStrict, nameLeases, nameRedisRate, nameThrottled, nameHTTPRate}
	serverNames = []string{nameServer, nameRatelimit}
)
