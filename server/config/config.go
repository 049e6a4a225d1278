package config

import "github.com/fluxgate/fluxgate/internal/yamltree"

// Config is the configuration of a server. [Defaults] and [Load] make one.
//
// The tags of a field have the name of the key, its default as in the environment, the possible
// values (oneof) or the form (is) of a string, whether it may be empty (required) or used twice in a list (unique),
// and the range of a number or a time (min and max). The comment of a field says what
// its key means: docs/configuration.md is generated from it.
type Config struct {
	Redis         Redis         `key:"redis"`
	Mongo         Mongo         `key:"mongo"`
	Rules         Rules         `key:"rules"`
	RateLimit     RateLimit     `key:"ratelimit"`
	Reload        Reload        `key:"reload"`
	WaitForRefill WaitForRefill `key:"wait-for-refill"`
	Settle        Settle        `key:"settle"`
	Events        Events        `key:"events"`
	Server        Server        `key:"server"`
	ForwardAuth   ForwardAuth   `key:"forward-auth"`
	Envoy         Envoy         `key:"envoy"`
	Log           Log           `key:"log"`
	Telemetry     Telemetry     `key:"telemetry"`

	from origin
}

// Defaults returns the default configuration.
func Defaults() (c Config) {
	d := newDecoder(nil)
	for _, s := range keys() {
		if s.initial != "" {
			d.value(s, s.in(&c), &yamltree.Node{Value: s.initial}, s.path)
		}
	}
	return c
}
