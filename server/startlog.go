package server

import (
	"cmp"

	"github.com/fluxgate/fluxgate/server/config"
)

// logStart logs what the server consists of.
func (a *App) logStart() {
	c := a.config
	attrs := append([]any{"version", a.version, "config", cmp.Or(c.File(), "none")}, a.storeAttrs()...)
	attrs = append(attrs, "rules", a.feed.source.Kind, "rulesAt", rulesAt(c), "reload", string(a.feed.strategy),
		"pollingInterval", c.Reload.PollingInterval.String())
	a.log.Info("started", append(attrs,
		"http", a.Addr("http"),
		"grpc", cmp.Or(a.Addr("grpc"), "off"),
		"admin", cmp.Or(a.Addr("admin"), "off"),
		"metrics", a.metricsAt(),
		"tls", a.edge.certs != nil)...)
}

// metricsAt returns the address of /metrics.
func (a *App) metricsAt() string {
	if !a.config.Telemetry.Metrics {
		return cmp.Or(a.Addr("metrics"), "off")
	}
	return cmp.Or(a.Addr("metrics"), a.Addr("http"))
}

// storeAttrs returns the log attributes of the store.
func (a *App) storeAttrs() []any {
	switch attrs := a.plane.Attrs(); {
	case !a.config.Redis.Enabled:
		return []any{"store", "memory"}
	case attrs != nil:
		return append([]any{"store", "redis", "leases", a.config.Redis.Leases}, attrs...)
	}
	target, _ := a.config.Redis.Target() // checked at the start
	return []any{"store", "redis (not connected)", "redisMode", a.config.Redis.Mode, "redisNodes", target.String()}
}

// rulesAt returns the location of the rules in their source.
func rulesAt(c *config.Config) string {
	if path := c.RuleFiles(); path != "" {
		return path
	}
	switch c.RuleSource() {
	case config.SourceXDS:
		return c.Rules.XDS.Server
	case config.SourceMongo:
		return c.Mongo.URI.String() + " " + c.Mongo.Database + "." + c.Mongo.Collection
	}
	return c.Redis.Prefix
}
