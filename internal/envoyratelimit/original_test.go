package envoyratelimit_test

import (
	"context"
	"fmt"

	descriptorpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/limiter"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	gostats "github.com/lyft/gostats"

	"github.com/fluxgate/fluxgate"
)

// original is a configuration as envoyproxy/ratelimit reads it.
type original struct {
	config config.RateLimitConfig
	keys   limiter.CacheKeyGenerator
}

// loadOriginal returns the error that envoyproxy/ratelimit panics with.
func loadOriginal(text []byte) (o *original, err error) {
	defer func() {
		if refused := recover(); refused != nil {
			err = fmt.Errorf("%v", refused)
		}
	}()
	manager := stats.NewStatManager(gostats.NewStore(gostats.NewNullSink(), false), settings.Settings{})
	files := []config.RateLimitConfigToLoad{{Name: "a.yaml", ConfigYaml: config.ConfigFileContentToYaml("a.yaml", string(text))}}
	return &original{config: config.NewRateLimitConfigImpl(files, manager, false), keys: limiter.NewCacheKeyGenerator("")}, nil
}

// limit returns what applies to a descriptor, and the key of its counter.
func (o *original) limit(domain string, entries []fluxgate.DescriptorEntry) (found outcome, counter string) {
	descriptor := &descriptorpb.RateLimitDescriptor{}
	for _, e := range entries {
		descriptor.Entries = append(descriptor.Entries, &descriptorpb.RateLimitDescriptor_Entry{Key: e.Key, Value: e.Value})
	}
	limit := o.config.GetLimit(context.Background(), domain, descriptor)
	switch {
	case limit == nil:
		return outcome{}, ""
	case limit.Unlimited:
		return outcome{name: limit.Name, unlimited: true}, ""
	}
	found = outcome{
		name: limit.Name, requests: int64(limit.Limit.RequestsPerUnit), unit: limit.Limit.Unit.String(),
		shadow: limit.ShadowMode, quota: limit.QuotaMode && !limit.ShadowMode,
	}
	if found.requests == 0 {
		return found, ""
	}
	return found, o.keys.GenerateCacheKey(domain, descriptor, limit, 0).Key
}
