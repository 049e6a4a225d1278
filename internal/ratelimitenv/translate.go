// Package ratelimitenv translates the environment variables of envoyproxy/ratelimit into
// the configuration of the server, for a program that replaces it, as in the deployment of
// Envoy Gateway.
package ratelimitenv

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/server/config"
)

// Translation is what the variables mean.
type Translation struct {
	Values []config.Value
	// Notes are about variables that have no effect or another one, and Refused about those
	// whose meaning cannot be kept, by name.
	Notes, Refused []Note
}

// Note is about one variable. It has no values that may be secret.
type Note struct{ Variable, Message string }

// Err lists the variables that are refused, nil if none are.
func (t *Translation) Err() error {
	if len(t.Refused) == 0 {
		return nil
	}
	lines := make([]string, len(t.Refused))
	for i, n := range t.Refused {
		lines[i] = n.Variable + ": " + n.Message
	}
	return fmt.Errorf("the environment cannot be used:\n%s", strings.Join(lines, "\n"))
}

// Translate translates variables as os.Environ has them.
func Translate(environ []string) *Translation {
	t := &translator{environ: map[string]string{}}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		t.environ[name] = value
	}
	maps.DeleteFunc(t.environ, func(_, value string) bool { return value == "" })
	t.listeners()
	t.rules()
	t.redis()
	t.decisions()
	t.telemetry()
	t.rest()
	return &t.Translation
}

type translator struct {
	environ map[string]string
	Translation
	// known are variables that were asked for.
	known map[string]bool
}

func (t *translator) get(name string) string {
	if t.known == nil {
		t.known = map[string]bool{}
	}
	t.known[name] = true
	return t.environ[name]
}

func (t *translator) isTrue(name string) bool {
	text := t.get(name)
	if text == "" {
		return false
	}
	yes, err := strconv.ParseBool(text)
	if err != nil {
		t.refuse(name, "must be true or false")
	}
	return yes
}

func (t *translator) set(key, value, from string) {
	t.Values = append(t.Values, config.Value{Key: key, Value: value, From: from})
}

// copy sets a key to the value of a variable, if it has one.
func (t *translator) copy(key, name string) {
	if value := t.get(name); value != "" {
		t.set(key, value, name)
	}
}

func (t *translator) note(name, message string) { t.Notes = append(t.Notes, Note{name, message}) }

func (t *translator) ignore(name, reason string) { t.note(name, "has no effect: "+reason) }

func (t *translator) refuse(name, message string) {
	t.Refused = append(t.Refused, Note{name, message})
}

// refuseTrue refuses a switch that is on.
func (t *translator) refuseTrue(name, message string) {
	if t.isTrue(name) {
		t.refuse(name, message)
	}
}

func (t *translator) listeners() {
	t.set("server.http", t.address("HOST", "PORT", "8080"), "PORT")
	t.set("server.grpc", t.address("GRPC_HOST", "GRPC_PORT", "8081"), "GRPC_PORT")
	// What envoyproxy/ratelimit does not have. FLUXGATE_SERVER_ADMIN enables it.
	t.set("server.admin", "", "ratelimit")
	t.set("forward-auth.enabled", "false", "ratelimit")
	if t.get("GRPC_UDS") != "" {
		t.refuse("GRPC_UDS", "sockets are not supported: use GRPC_HOST and GRPC_PORT")
	}
	cert, key, clientCA := t.get("GRPC_SERVER_TLS_CERT"), t.get("GRPC_SERVER_TLS_KEY"), t.get("GRPC_CLIENT_TLS_CACERT")
	switch useTLS := t.isTrue("GRPC_SERVER_USE_TLS"); {
	case useTLS && (cert == "" || key == ""):
		t.refuse("GRPC_SERVER_USE_TLS", "needs GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY")
	case useTLS:
		t.set("server.tls.cert-file", cert, "GRPC_SERVER_TLS_CERT")
		t.set("server.tls.key-file", key, "GRPC_SERVER_TLS_KEY")
		t.set("server.tls.client-ca-file", clientCA, "GRPC_CLIENT_TLS_CACERT")
		t.set("server.tls.listeners", "grpc", "GRPC_SERVER_USE_TLS")
		if clientCA != "" && t.get("GRPC_CLIENT_TLS_SAN") != "" {
			t.refuse("GRPC_CLIENT_TLS_SAN", "is not supported: set FLUXGATE_SERVER_AUTH_CERTIFICATES")
		}
	case clientCA != "":
		t.ignore("GRPC_CLIENT_TLS_CACERT", "GRPC_SERVER_USE_TLS is not true")
	}
	t.get("GRPC_CLIENT_TLS_SAN") // of no use otherwise
}

func (t *translator) address(host, port, otherwise string) string {
	name := t.get(host)
	if name == "0.0.0.0" {
		name = "" // IPv6 too
	}
	return net.JoinHostPort(name, cmp.Or(t.get(port), otherwise))
}

func (t *translator) rules() {
	t.set("mongo.enabled", "false", "ratelimit")
	force, needsConfig := t.isTrue("FORCE_START_WITHOUT_INITIAL_CONFIG"), t.isTrue("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED")
	folder := path.Join(cmp.Or(t.get("RUNTIME_ROOT"), "/srv/runtime_data/current"), t.get("RUNTIME_SUBDIRECTORY"), cmp.Or(t.get("RUNTIME_APPDIRECTORY"), "config"))
	switch kind := t.get("CONFIG_TYPE"); kind {
	case "", "FILE":
		t.set("rules.envoy-files", folder, "RUNTIME_ROOT")
		for _, name := range slices.Sorted(maps.Keys(t.environ)) {
			if strings.HasPrefix(name, "CONFIG_GRPC_XDS_") || strings.HasPrefix(name, "XDS_CLIENT_") {
				t.get(name)
				t.ignore(name, "CONFIG_TYPE is FILE")
			}
		}
	case "GRPC_XDS_SOTW":
		t.xds(force && !needsConfig)
	default:
		t.refuse("CONFIG_TYPE", "must be FILE or GRPC_XDS_SOTW")
	}
	t.refuseTrue("MERGE_DOMAIN_CONFIG", "is not supported: write one configuration for each domain")
}

func (t *translator) xds(startWithoutRules bool) {
	t.set("rules.source", config.SourceXDS, "CONFIG_TYPE")
	t.set("rules.xds.server", cmp.Or(t.get("CONFIG_GRPC_XDS_SERVER_URL"), "localhost:18000"), "CONFIG_GRPC_XDS_SERVER_URL")
	t.set("rules.xds.node-id", cmp.Or(t.get("CONFIG_GRPC_XDS_NODE_ID"), "default"), "CONFIG_GRPC_XDS_NODE_ID")
	t.copy("rules.xds.node-metadata", "CONFIG_GRPC_XDS_NODE_METADATA")
	t.copy("rules.xds.max-message", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES")
	t.set("rules.xds.start-without-rules", strconv.FormatBool(startWithoutRules), "FORCE_START_WITHOUT_INITIAL_CONFIG")
	if t.get("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS") != "" {
		t.refuse("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "is not supported: the server would not get them")
	}
	files := map[string]string{
		"rules.xds.tls.cert-file": "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "rules.xds.tls.key-file": "CONFIG_GRPC_XDS_CLIENT_TLS_KEY",
		"rules.xds.tls.ca-file": "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "rules.xds.tls.server-name": "CONFIG_GRPC_XDS_SERVER_TLS_SAN",
	}
	if !t.isTrue("CONFIG_GRPC_XDS_SERVER_USE_TLS") {
		for _, name := range slices.Sorted(maps.Values(files)) {
			if t.get(name) != "" {
				t.ignore(name, "CONFIG_GRPC_XDS_SERVER_USE_TLS is not true")
			}
		}
		return
	}
	t.set("rules.xds.tls.enabled", "true", "CONFIG_GRPC_XDS_SERVER_USE_TLS")
	for _, key := range slices.Sorted(maps.Keys(files)) {
		t.copy(key, files[key])
	}
}

// decisions translates what changes answers.
func (t *translator) decisions() {
	t.refuseTrue("SHADOW_MODE", "is not supported: set shadow_mode in the descriptors")
	t.refuseTrue("QUOTA_MODE", "is not supported: set quota_mode in the descriptors")
	headers := t.isTrue("LIMIT_RESPONSE_HEADERS_ENABLED")
	if headers {
		t.set("envoy.response-headers", "true", "LIMIT_RESPONSE_HEADERS_ENABLED")
		t.note("LIMIT_RESPONSE_HEADERS_ENABLED", "the headers are X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset")
	}
	for _, name := range []string{"LIMIT_LIMIT_HEADER", "LIMIT_REMAINING_HEADER", "LIMIT_RESET_HEADER"} {
		if t.get(name) != "" && headers {
			t.refuse(name, "is not supported: the names of the headers are fixed")
		}
	}
}

func (t *translator) telemetry() {
	switch level := strings.ToLower(t.get("LOG_LEVEL")); level {
	case "", "debug", "info", "warn", "error":
		t.copyLower("log.level", "LOG_LEVEL")
	case "trace":
		t.set("log.level", "debug", "LOG_LEVEL")
	case "warning":
		t.set("log.level", "warn", "LOG_LEVEL")
	case "fatal", "panic":
		t.set("log.level", "error", "LOG_LEVEL")
	default:
		t.refuse("LOG_LEVEL", "must be trace, debug, info, warn, error, fatal or panic")
	}
	t.copyLower("log.format", "LOG_FORMAT")
	if t.isTrue("DISABLE_STATS") {
		t.set("telemetry.metrics", "false", "DISABLE_STATS")
	}
	addr := cmp.Or(t.get("PROMETHEUS_ADDR"), ":9090")
	if t.isTrue("USE_PROMETHEUS") {
		t.set("server.metrics", addr, "PROMETHEUS_ADDR")
		if path := t.get("PROMETHEUS_PATH"); path != "" && path != "/metrics" {
			t.ignore("PROMETHEUS_PATH", "the path of metrics is /metrics")
		}
	}
	for _, name := range []string{"USE_STATSD", "USE_DOG_STATSD"} {
		if t.isTrue(name) {
			t.ignore(name, "metrics are for Prometheus, at /metrics of PORT")
		}
	}
	t.tracing()
}

func (t *translator) copyLower(key, name string) {
	if value := t.get(name); value != "" {
		t.set(key, strings.ToLower(value), name)
	}
}

func (t *translator) tracing() {
	endpoint, ratio, protocol := t.get("OTEL_EXPORTER_OTLP_ENDPOINT"), t.get("TRACING_SAMPLING_RATE"), t.get("TRACING_EXPORTER_PROTOCOL")
	if !t.isTrue("TRACING_ENABLED") {
		return
	}
	if protocol != "" && protocol != "http" {
		t.refuse("TRACING_EXPORTER_PROTOCOL", "must be http")
	}
	t.set("telemetry.otlp-endpoint", cmp.Or(endpoint, "http://localhost:4318"), "OTEL_EXPORTER_OTLP_ENDPOINT")
	t.set("telemetry.sample-ratio", cmp.Or(ratio, "1"), "TRACING_SAMPLING_RATE")
}

// noEffect are variables of envoyproxy/ratelimit that nothing depends on here, and why.
var noEffect = map[string]string{
	"DEBUG_HOST": "there is no debug listener: use the admin API", "DEBUG_PORT": "there is no debug listener: use the admin API",
	"GRPC_MAX_CONNECTION_AGE": fixed, "GRPC_MAX_CONNECTION_AGE_GRACE": fixed,
	"GRPC_SERVER_TLS_CA_CERT":                       "envoyproxy/ratelimit does not read it: GRPC_CLIENT_TLS_CACERT asks for client certificates",
	"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL": fixed, "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL": fixed, "XDS_CLIENT_BACKOFF_MAX_INTERVAL": fixed,
	"XDS_CLIENT_BACKOFF_RANDOM_FACTOR": fixed, "XDS_CLIENT_BACKOFF_JITTER": fixed,
	"STATSD_HOST": "", "STATSD_PORT": "", "USE_DOG_STATSD_MOGRIFIERS": "", "EXTRA_TAGS": otherMetrics, "STATS_FLUSH_INTERVAL": "",
	"PROMETHEUS_MAPPER_YAML": otherMetrics, "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS": otherMetrics, "PROMETHEUS_PATH": "",
	"RUNTIME_IGNOREDOTFILES": "", "RUNTIME_WATCH_ROOT": "",
	"EXPIRATION_JITTER_MAX_SECONDS": "keys expire when their window ends", "LOCAL_CACHE_SIZE_IN_BYTES": "refusals are remembered if redis.leases is auto",
	"NEAR_LIMIT_RATIO": otherMetrics, "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "a refused call is counted only in the limits that refuse it", "RESPONSE_DYNAMIC_METADATA": "the rule that decides is always in the metadata",
	"TRACING_SERVICE_NAME": "traces have the service name fluxgate", "TRACING_SERVICE_NAMESPACE": "", "TRACING_SERVICE_INSTANCE_ID": "",
	"REDIS_PIPELINE_WINDOW": shared, "REDIS_PIPELINE_LIMIT": shared, "REDIS_CLUSTER_PIPELINE_PARALLELISM": shared, "REDIS_POOL_ON_EMPTY_BEHAVIOR": "",
	"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION": "a server without Redis is ready and counts by itself",
	"REDIS_STARTUP_INITIAL_INTERVAL":       fixed, "REDIS_STARTUP_MAX_INTERVAL": fixed, "REDIS_STARTUP_MAX_ELAPSED_TIME": fixed,
}

const (
	fixed        = "the value is fixed"
	otherMetrics = "metrics have other names: see https://fluxgate.github.io/fluxgate/metrics"
	shared       = "calls share round trips by themselves"
)

// ours are the beginnings of names that belong to envoyproxy/ratelimit.
var ours = regexp.MustCompile(`^(CONFIG_GRPC_XDS|GRPC_(SERVER|CLIENT|MAX)|REDIS|XDS_CLIENT|RUNTIME|MEMCACHE|TRACING|LIMIT|PROMETHEUS)_`)

// serviceLink are variables that Kubernetes sets for a service called redis, say.
var serviceLink = regexp.MustCompile(`_(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// rest adds the variables that have no effect or are not known.
func (t *translator) rest() {
	for _, name := range slices.Sorted(maps.Keys(t.environ)) {
		switch reason, listed := noEffect[name]; {
		case t.known[name] || listed && reason == "":
		case listed:
			t.ignore(name, reason)
		case strings.HasPrefix(name, "MEMCACHE_"):
			t.ignore(name, "BACKEND_TYPE is redis")
		case ours.MatchString(name) && !serviceLink.MatchString(name):
			t.ignore(name, "it is not known")
		}
	}
	for _, notes := range [][]Note{t.Notes, t.Refused} {
		slices.SortFunc(notes, func(a, b Note) int { return strings.Compare(a.Variable, b.Variable) })
	}
}
