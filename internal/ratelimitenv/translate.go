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
	t := &translator{environ: map[string]string{}, used: map[string]bool{}}
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
	used map[string]bool // variables that have been read
}

func (t *translator) get(name string) string {
	t.used[name] = true
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
	if t.isTrue("GRPC_SERVER_USE_TLS") {
		t.tls()
	}
}

func (t *translator) tls() {
	if t.get("GRPC_SERVER_TLS_CERT") == "" || t.get("GRPC_SERVER_TLS_KEY") == "" {
		t.refuse("GRPC_SERVER_USE_TLS", "needs GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY")
	}
	t.copy("server.tls.cert-file", "GRPC_SERVER_TLS_CERT")
	t.copy("server.tls.key-file", "GRPC_SERVER_TLS_KEY")
	t.copy("server.tls.client-ca-file", "GRPC_CLIENT_TLS_CACERT")
	t.set("server.tls.listeners", "grpc", "GRPC_SERVER_USE_TLS")
	if t.get("GRPC_CLIENT_TLS_CACERT") != "" && t.get("GRPC_CLIENT_TLS_SAN") != "" {
		t.refuse("GRPC_CLIENT_TLS_SAN", "is not supported: set FLUXGATE_SERVER_AUTH_CERTIFICATES")
	}
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
	force := t.isTrue("FORCE_START_WITHOUT_INITIAL_CONFIG")
	needsConfig := t.isTrue("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED")
	root := cmp.Or(t.get("RUNTIME_ROOT"), "/srv/runtime_data/current")
	folder := path.Join(root, t.get("RUNTIME_SUBDIRECTORY"), cmp.Or(t.get("RUNTIME_APPDIRECTORY"), "config"))
	switch kind := t.get("CONFIG_TYPE"); kind {
	case "", "FILE":
		t.set("rules.envoy-files", folder, "RUNTIME_ROOT")
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
	if t.isTrue("CONFIG_GRPC_XDS_SERVER_USE_TLS") {
		t.set("rules.xds.tls.enabled", "true", "CONFIG_GRPC_XDS_SERVER_USE_TLS")
		t.copy("rules.xds.tls.ca-file", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT")
		t.copy("rules.xds.tls.cert-file", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT")
		t.copy("rules.xds.tls.key-file", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY")
		t.copy("rules.xds.tls.server-name", "CONFIG_GRPC_XDS_SERVER_TLS_SAN")
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

// levels are the levels of the log there, and the nearest ones here.
var levels = map[string]string{
	"trace": "debug", "debug": "debug", "info": "info", "warn": "warn", "warning": "warn",
	"error": "error", "fatal": "error", "panic": "error",
}

func (t *translator) telemetry() {
	if level := t.get("LOG_LEVEL"); level != "" {
		if levels[strings.ToLower(level)] == "" {
			t.refuse("LOG_LEVEL", "must be trace, debug, info, warn, error, fatal or panic")
		}
		t.set("log.level", levels[strings.ToLower(level)], "LOG_LEVEL")
	}
	if format := t.get("LOG_FORMAT"); format != "" {
		t.set("log.format", strings.ToLower(format), "LOG_FORMAT")
	}
	if t.isTrue("DISABLE_STATS") {
		t.set("telemetry.metrics", "false", "DISABLE_STATS")
	}
	if t.isTrue("USE_PROMETHEUS") {
		t.set("server.metrics", cmp.Or(t.get("PROMETHEUS_ADDR"), ":9090"), "PROMETHEUS_ADDR")
	}
	for _, name := range []string{"USE_STATSD", "USE_DOG_STATSD"} {
		if t.isTrue(name) {
			t.note(name, "has no effect: metrics are for Prometheus, at /metrics of PORT")
		}
	}
	if t.isTrue("TRACING_ENABLED") {
		t.tracing()
	}
}

func (t *translator) tracing() {
	if protocol := t.get("TRACING_EXPORTER_PROTOCOL"); protocol != "" && protocol != "http" {
		t.refuse("TRACING_EXPORTER_PROTOCOL", "must be http")
	}
	endpoint := cmp.Or(t.get("OTEL_EXPORTER_OTLP_ENDPOINT"), "http://localhost:4318")
	t.set("telemetry.otlp-endpoint", endpoint, "OTEL_EXPORTER_OTLP_ENDPOINT")
	t.set("telemetry.sample-ratio", cmp.Or(t.get("TRACING_SAMPLING_RATE"), "1"), "TRACING_SAMPLING_RATE")
}

// theirs are the beginnings of names that belong to envoyproxy/ratelimit, and others are
// names without such a beginning.
var (
	theirs = regexp.MustCompile(`^(CONFIG_GRPC_XDS|GRPC_(SERVER|CLIENT|MAX)|REDIS|XDS_CLIENT|RUNTIME|TRACING|LIMIT|PROMETHEUS)_`)
	others = regexp.MustCompile(`^(MEMCACHE_.*|DEBUG_(HOST|PORT)|EXTRA_TAGS|NEAR_LIMIT_RATIO|EXPIRATION_JITTER_MAX_SECONDS|` +
		`LOCAL_CACHE_SIZE_IN_BYTES|RESPONSE_DYNAMIC_METADATA|STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT)$`)
)

// silent are variables without effect that are not worth a line of the log: details, and
// those of a switch that is off.
var silent = regexp.MustCompile(`^(RUNTIME_(IGNOREDOTFILES|WATCH_ROOT)|TRACING_SERVICE_(NAMESPACE|INSTANCE_ID)|` +
	`REDIS_(PERSECOND_.*|POOL_ON_EMPTY_BEHAVIOR)|LIMIT_(LIMIT|REMAINING|RESET)_HEADER|GRPC_CLIENT_TLS_SAN)$`)

// serviceLink are variables that Kubernetes sets for a service called redis, say.
var serviceLink = regexp.MustCompile(`_(SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// rest adds the variables that have no effect, known or not.
func (t *translator) rest() {
	for name := range t.environ {
		known := others.MatchString(name) || theirs.MatchString(name) && !serviceLink.MatchString(name)
		if known && !t.used[name] && !silent.MatchString(name) {
			t.note(name, "has no effect")
		}
	}
	for _, notes := range [][]Note{t.Notes, t.Refused} {
		slices.SortFunc(notes, func(a, b Note) int { return strings.Compare(a.Variable, b.Variable) })
	}
}
