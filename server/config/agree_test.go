package config_test

import (
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

// The values of the configuration are those of the packages that use them, and so
// are the defaults.
func TestDefaults_PackageConstants(t *testing.T) {
	accepted := func(key string, words ...string) {
		t.Helper()
		for _, word := range words {
			c := load(t, config.Sources{Set: []string{key + "=" + word}})
			if err := c.Check(); err != nil && strings.Contains(err.Error(), "must be one of") {
				t.Error(err)
			}
		}
	}
	accepted("redis.mode", string(redisstore.ModeAuto), string(redisstore.ModeStandalone), string(redisstore.ModeSentinel), string(redisstore.ModeCluster))
	accepted("reload.strategy", string(reload.Auto), string(reload.Polling), string(reload.PubSub))
	accepted("ratelimit.default-policy", string(rules.Reject), string(rules.WaitForRefill))
	accepted("ratelimit.on-failure", string(rules.FailLocal), string(rules.FailOpen), string(rules.FailClosed))
	c := config.Defaults()
	if c.Reload.Channel != reload.DefaultChannel || c.Reload.Strategy != string(reload.Auto) || c.Redis.Mode != string(redisstore.ModeAuto) {
		t.Errorf("the defaults are %+v and %+v", c.Reload, c.Redis)
	}
}
