package config_test

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/config"
)

// documents.yaml is the configuration of the documents that FluxGate comes from,
// unchanged.
func TestLoad_SourceDocuments(t *testing.T) {
	c := load(t, config.Sources{File: "testdata/documents.yaml"})
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	want := config.Defaults()
	want.Mongo.URI = "mongodb://localhost:27017/fluxgate"
	want.RateLimit.IncludePatterns = []string{"/api/*"}
	want.RateLimit.ExcludePatterns = []string{"/health", "/actuator/*"}
	want.Reload.Strategy = "POLLING"
	want.Reload.ResetBucketsOnReload = true
	if got, want := plain(c), plain(&want); got != want {
		t.Errorf("it reads as\n%s\nwant\n%s", got, want)
	}
	if c.RuleSource() != config.SourceMongo {
		t.Errorf("rules come from %q", c.RuleSource())
	}
}

// Other configurations of the documents, and what they have commented out, are
// read too.
func TestLoad_SourceDocumentsVariants(t *testing.T) {
	for content, want := range map[string]string{
		"fluxgate:\n  redis:\n    cluster-nodes: node1:7000,node2:7001,node3:7002\n":                                "redis://node1:7000,node2:7001,node3:7002",
		"fluxgate:\n  redis:\n    uri: redis://node1:6379,redis://node2:6379,redis://node3:6379\n    timeout: 5s\n": "redis://node1:6379,node2:6379,node3:6379",
		"fluxgate:\n  ratelimit:\n    default-policy: REJECT\n  wait-for-refill:\n    enabled: true\n":              "redis://localhost:6379",
		"fluxgate:\n  redis:\n    uri: rediss://u:p%40w@one:1/0\n    cluster-nodes: [two:2, \"[::1]:3\"]\n":         "rediss://u:p%40w@two:2,[::1]:3/0",
	} {
		c := load(t, config.Sources{File: write(t, "application.yml", content)})
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		if target, err := c.Redis.Target(); err != nil || string(target) != want {
			t.Errorf("%s\nconnects to %s, %v, want %s", content, string(target), err, want)
		}
	}
}

// The environment overrides the file, and the command line the environment.
func TestLoad_Precedence(t *testing.T) {
	file := write(t, "fluxgate.yaml", "fluxgate:\n  redis:\n    prefix: file\n  ratelimit:\n    exclude-patterns: [/file, /more]\n")
	environ := []string{"PATH=/bin", "FLUXGATE_REDIS_PREFIX=older", "FLUXGATE_REDIS_PREFIX=environ", "FLUXGATE_RATELIMIT_EXCLUDE_PATTERNS=/environ"}
	set := []string{"redis.prefix=earlier", "fluxgate.redis.prefix=set", "ratelimit.exclude-patterns="}
	for _, c := range []struct {
		name    string
		from    config.Sources
		prefix  string
		exclude []string
		origin  string
	}{
		{"nothing", config.Sources{}, "fluxgate", []string{}, ""},
		{"file", config.Sources{File: file}, "file", []string{"/file", "/more"}, file + ":3"},
		{"environment", config.Sources{Environ: environ}, "environ", []string{"/environ"}, "FLUXGATE_REDIS_PREFIX"},
		{"flags", config.Sources{Set: set}, "set", []string{}, "--set redis.prefix"},
		{"file and environment", config.Sources{File: file, Environ: environ}, "environ", []string{"/environ"}, "FLUXGATE_REDIS_PREFIX"},
		{"file and flags", config.Sources{File: file, Set: set}, "set", []string{}, "--set redis.prefix"},
		{"environment and flags", config.Sources{Environ: environ, Set: set}, "set", []string{}, "--set redis.prefix"},
		{"all", config.Sources{File: file, Environ: environ, Set: set}, "set", []string{}, "--set redis.prefix"},
		{"a file that the environment names", config.Sources{Environ: []string{"FLUXGATE_CONFIG=" + file}}, "file", []string{"/file", "/more"}, file + ":3"},
		{"two files", config.Sources{File: file, Environ: []string{"FLUXGATE_CONFIG=missing"}}, "file", []string{"/file", "/more"}, file + ":3"},
	} {
		got := load(t, c.from)
		if got.Redis.Prefix != c.prefix || !slices.Equal(got.RateLimit.ExcludePatterns, c.exclude) || got.Origin("redis.prefix") != c.origin {
			t.Errorf("%s: prefix %q from %q and patterns %q, want %q from %q and %q",
				c.name, got.Redis.Prefix, got.Origin("redis.prefix"), got.RateLimit.ExcludePatterns, c.prefix, c.origin, c.exclude)
		}
		if got.Redis.Timeout != 100*time.Millisecond || got.Origin("redis.timeout") != "" {
			t.Errorf("%s: a setting that is not set is not at its default", c.name)
		}
	}
}

// Kubernetes sets variables for a service called fluxgate in all containers beside
// it. They are ignored.
func TestLoad_OtherVariables(t *testing.T) {
	load(t, config.Sources{Environ: []string{
		"FLUXGATE_SERVICE_HOST=10.0.0.1", "FLUXGATE_SERVICE_PORT=8080", "FLUXGATE_SERVICE_PORT_HTTP=8080", "FLUXGATE_PORT=tcp://10.0.0.1:8080",
		"FLUXGATE_PORT_8080_TCP=tcp://10.0.0.1:8080", "FLUXGATE_PORT_8080_TCP_ADDR=10.0.0.1", "FLUXGATE_PORT_8080_TCP_PROTO=tcp",
		"FLUXGATE_REDIS_SERVICE_HOST=10.0.0.2", "FLUXGATE_REDIS_PORT=tcp://10.0.0.2:6379", "FLUXGATE_REDIS_PORT_6379_TCP_PORT=6379",
		"FLUXGATE_TEST_MONGO_URI=mongodb://x", "FLUXGATETOO=1", "fluxgate_redis_uri=x", "nonsense",
	}})
}

// A group without keys leaves them at their defaults.
func TestLoad_EmptyGroups(t *testing.T) {
	for _, content := range []string{"fluxgate:\n", "fluxgate: {}\n", "fluxgate:\n  redis:\n  # uri: x\n  log: {}\n", `{"fluxgate": {"redis": null}}`} {
		c, want := load(t, config.Sources{File: write(t, "a.yaml", content)}), config.Defaults()
		if plain(c) != plain(&want) {
			t.Errorf("%q is not the default", content)
		}
	}
}

// The source of rules is the one that the settings name.
func TestRuleSource(t *testing.T) {
	for want, set := range map[string][]string{
		"mongo":       {"mongo.uri=mongodb://localhost:27017"},
		"file":        {"rules.file=x.yaml"},
		"redis":       nil, // MongoDB is the source only if it is named
		"envoy-files": {"rules.envoy-files=x.yaml"},
		"xds":         {"rules.xds.server=envoy-gateway:18001"},
		"":            {"mongo.enabled=false", "redis.enabled=false"},
	} {
		c := load(t, config.Sources{Set: set})
		if got := c.RuleSource(); got != want || (c.Check() == nil) != (want != "") {
			t.Errorf("%v: rules come from %q, want %q; Check says %v", set, got, want, c.Check())
		}
	}
	for _, set := range [][]string{{"mongo.enabled=false"}, {"mongo.database=other"}, {"mongo.uri=mongodb://a", "mongo.enabled=false"}} {
		if c := load(t, config.Sources{Set: set}); c.RuleSource() != "redis" || c.Check() != nil {
			t.Errorf("%v: rules come from %q; Check says %v", set, c.RuleSource(), c.Check())
		}
	}
	c := load(t, config.Sources{Set: []string{"rules.source=file", "rules.file=x.yaml", "mongo.enabled=true"}})
	if err := c.Check(); err != nil || c.RuleSource() != "file" {
		t.Errorf("what is said twice over is refused: %v", err)
	}
}

// A configuration that was not loaded is checked too.
func TestCheck_NotLoaded(t *testing.T) {
	c := config.Defaults()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	c.RateLimit.OnFailure = rules.OnFailure("shrug")
	c.Redis.Timeout = -1
	err := c.Check()
	for _, part := range []string{"ratelimit.on-failure: must be one of local, open, closed", "redis.timeout: must be 1ms to 1m, not -1ns"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
}

// documents.yaml is the whole block of the documents.
func TestLoad_SourceDocumentsComplete(t *testing.T) {
	data, err := os.ReadFile("testdata/documents.yaml")
	if err != nil || !strings.HasPrefix(string(data), "fluxgate:\n") || !strings.HasSuffix(string(data), "max-wait-time: 5s\n") {
		t.Errorf("it is %q, %v", data, err)
	}
}

// Listeners answer this machine only until someone opens them.
func TestDefaults_Loopback(t *testing.T) {
	s := config.Defaults().Server
	for name, addr := range map[string]string{"http": s.HTTP, "grpc": s.GRPC, "admin": s.Admin, "metrics": s.Metrics} {
		if host, _, _ := net.SplitHostPort(addr); addr != "" && host != "127.0.0.1" {
			t.Errorf("server.%s is %s", name, addr)
		}
	}
}
