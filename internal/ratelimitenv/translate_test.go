package ratelimitenv_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/ratelimitenv"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/config"
)

// gateway is the environment of the deployment that Envoy Gateway creates, with all that
// can be switched on, and with certificates at other places.
func gateway(certs *testenv.Certificates) []string {
	return []string{
		"PATH=/bin", "HOME=/", "KUBERNETES_SERVICE_HOST=10.0.0.1", "ENVOY_GATEWAY_PORT_18001_TCP=tcp://10.0.0.2:18001",
		"REDIS_SERVICE_HOST=10.0.0.3", "REDIS_PORT=tcp://10.0.0.3:6379", "REDIS_PORT_6379_TCP_ADDR=10.0.0.3",
		"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_IGNOREDOTFILES=true", "RUNTIME_WATCH_ROOT=false",
		"LOG_LEVEL=info", "USE_STATSD=false", "CONFIG_TYPE=GRPC_XDS_SOTW",
		"CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001", "CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit",
		"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=" + certs.CertFile, "GRPC_SERVER_TLS_KEY=" + certs.KeyFile, "GRPC_SERVER_TLS_CA_CERT=" + certs.CAFile,
		"CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT=" + certs.CertFile, "CONFIG_GRPC_XDS_CLIENT_TLS_KEY=" + certs.KeyFile,
		"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=" + certs.CAFile, "FORCE_START_WITHOUT_INITIAL_CONFIG=true",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=redis.redis.svc:6379", "REDIS_TLS=true", "REDIS_TLS_CLIENT_CERT=" + certs.CertFile, "REDIS_TLS_CLIENT_KEY=" + certs.KeyFile,
		"USE_PROMETHEUS=true", "PROMETHEUS_ADDR=:19001", "PROMETHEUS_MAPPER_YAML=/etc/statsd-exporter/conf.yaml",
		"TRACING_ENABLED=true", "TRACING_SERVICE_NAME=envoy-ratelimit", "TRACING_SERVICE_NAMESPACE=envoy-gateway-system", "TRACING_SERVICE_INSTANCE_ID=envoy-ratelimit-7d9",
		"TRACING_SAMPLING_RATE=0.5", "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318",
	}
}

// load is the configuration of variables, which must not be refused.
func load(t *testing.T, environ ...string) (*config.Config, *ratelimitenv.Translation) {
	t.Helper()
	meant := ratelimitenv.Translate(environ)
	if err := meant.Err(); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Sources{Values: meant.Values})
	if err != nil {
		t.Fatal(err)
	}
	return c, meant
}

// The environment of Envoy Gateway is a valid configuration.
func TestTranslate_EnvoyGateway(t *testing.T) {
	certs := testenv.NewCertificates(t)
	c, meant := load(t, gateway(certs)...)
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	want := config.Defaults()
	want.Server.HTTP, want.Server.GRPC, want.Server.Metrics, want.Server.Admin = ":8080", ":8081", ":19001", ""
	want.Server.TLS.CertFile, want.Server.TLS.KeyFile, want.Server.TLS.Listeners = certs.CertFile, certs.KeyFile, []string{"grpc"}
	want.ForwardAuth.Enabled, want.Mongo.Enabled = false, false
	want.Rules.Source = config.SourceXDS
	want.Rules.XDS.Server, want.Rules.XDS.NodeID, want.Rules.XDS.StartWithoutRules = "envoy-gateway:18001", "envoy-ratelimit", true
	want.Rules.XDS.TLS = config.XDSTLS{Enabled: true, CAFile: certs.CAFile, CertFile: certs.CertFile, KeyFile: certs.KeyFile}
	want.Redis.URI, want.Redis.Mode = "rediss://redis.redis.svc:6379", "standalone"
	want.Redis.TLS = config.RedisTLS{CertFile: certs.CertFile, KeyFile: certs.KeyFile}
	want.Telemetry.OTLPEndpoint, want.Telemetry.SampleRatio = "http://collector:4318", 0.5
	if got := values(c); !maps.Equal(got, values(&want)) {
		for key, value := range values(&want) {
			if got[key] != value {
				t.Errorf("%s is %s, want %s", key, got[key], value)
			}
		}
	}
	var ignored []string
	for _, n := range meant.Notes {
		ignored = append(ignored, n.Variable)
	}
	if want := []string{"GRPC_SERVER_TLS_CA_CERT", "PROMETHEUS_MAPPER_YAML", "TRACING_SERVICE_NAME"}; !slices.Equal(ignored, want) {
		t.Errorf("without effect are %v, want %v", ignored, want)
	}
}

// values are all settings, as printed.
func values(c *config.Config) map[string]string {
	all := map[string]string{}
	var b strings.Builder
	_ = c.Print(&b, config.JSON) // a builder does not fail
	for i, line := range strings.Split(b.String(), "\n") {
		all[fmt.Sprint(i)] = line
	}
	return all
}

// redisHost is what every environment needs.
const redisHost = "REDIS_URL=redis:6379"

// Each variable becomes the setting with its meaning.
func TestTranslate_Variables(t *testing.T) {
	for _, c := range []struct {
		environ []string
		want    string // settings that are not those of an environment without them
	}{
		{nil, "rules.envoy-files=/srv/runtime_data/current/config server.http=:8080 server.grpc=:8081 redis.uri=redis://redis:6379 redis.mode=standalone"},
		{[]string{"RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit"}, "rules.envoy-files=/data/ratelimit/config"},
		{[]string{"CONFIG_TYPE=FILE", "RUNTIME_APPDIRECTORY=limits"}, "rules.envoy-files=/srv/runtime_data/current/limits"},
		{[]string{"HOST=127.0.0.1", "PORT=80", "GRPC_HOST=0.0.0.0", "GRPC_PORT=81"}, "server.http=127.0.0.1:80 server.grpc=:81"},
		{[]string{"GRPC_HOST=::1"}, "server.grpc=[::1]:8081"},
		{[]string{"GRPC_SERVER_USE_TLS=1", "GRPC_SERVER_TLS_CERT=c", "GRPC_SERVER_TLS_KEY=k", "GRPC_CLIENT_TLS_CACERT=a"},
			"server.tls.cert-file=c server.tls.key-file=k server.tls.client-ca-file=a server.tls.listeners=grpc"},
		{[]string{"CONFIG_TYPE=GRPC_XDS_SOTW"}, "rules.source=xds rules.xds.server=localhost:18000 rules.xds.node-id=default rules.xds.start-without-rules=false"},
		{[]string{"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_NODE_METADATA=a=1,b=2", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=1000000", "CONFIG_GRPC_XDS_SERVER_USE_TLS=t", "CONFIG_GRPC_XDS_SERVER_TLS_SAN=gw.example"},
			"rules.xds.node-metadata=a=1,b=2 rules.xds.max-message=1000000 rules.xds.tls.enabled=true rules.xds.tls.server-name=gw.example"},
		{[]string{"CONFIG_TYPE=GRPC_XDS_SOTW", "FORCE_START_WITHOUT_INITIAL_CONFIG=true", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true"}, "rules.xds.start-without-rules=false"},
		{[]string{"REDIS_TYPE=CLUSTER", "REDIS_URL=a:1,b:2"}, "redis.uri=redis://a:1,b:2 redis.mode=cluster"},
		{[]string{"REDIS_TYPE=sentinel", "REDIS_URL=mymaster,a:1,b:2", "REDIS_TLS=true"}, "redis.uri=rediss-sentinel://a:1,b:2/mymaster redis.mode=sentinel"},
		{[]string{"REDIS_TYPE=SENTINEL", "REDIS_URL=m,a:1", "REDIS_AUTH=p", "REDIS_SENTINEL_AUTH=p"}, "redis.uri=redis-sentinel://p@a:1/m"},
		{[]string{"REDIS_AUTH=p@s/w,o?r%d"}, "redis.uri=redis://p%40s%2Fw%2Co%3Fr%25d@redis:6379"},
		{[]string{"REDIS_AUTH=ada:pass:word"}, "redis.uri=redis://ada:pass%3Aword@redis:6379"},
		{[]string{"REDIS_URL=redis://u:p@redis:6379/2"}, "redis.uri=redis://u:p@redis:6379/2"},
		{[]string{"REDIS_URL=rediss://redis:6379", "REDIS_TLS_CACERT=a"}, "redis.uri=rediss://redis:6379 redis.tls.ca-file=a"},
		{[]string{"REDIS_POOL_SIZE=30", "REDIS_TIMEOUT=2s", "CACHE_KEY_PREFIX=edge"}, "redis.pool.max-total=30 redis.timeout=2s redis.prefix=edge"},
		{[]string{"LOG_LEVEL=WARNING", "LOG_FORMAT=JSON"}, "log.level=warn log.format=json"},
		{[]string{"LOG_LEVEL=trace"}, "log.level=debug"},
		{[]string{"LOG_LEVEL=fatal"}, "log.level=error"},
		{[]string{"LOG_LEVEL=WARN"}, "log.level=warn"},
		{[]string{"DISABLE_STATS=true"}, "telemetry.metrics=false"},
		{[]string{"USE_PROMETHEUS=true"}, "server.metrics=:9090"},
		{[]string{"TRACING_ENABLED=true"}, "telemetry.otlp-endpoint=http://localhost:4318 telemetry.sample-ratio=1"},
		{[]string{"LIMIT_RESPONSE_HEADERS_ENABLED=true"}, "envoy.response-headers=true"},
	} {
		config, meant := load(t, append([]string{redisHost}, c.environ...)...)
		got := map[string]string{}
		for _, v := range meant.Values {
			got[v.Key] = v.Value
		}
		for want := range strings.FieldsSeq(c.want) {
			key, value, _ := strings.Cut(want, "=")
			if got[key] != value {
				t.Errorf("%v: %s is %q, want %q", c.environ, key, got[key], value)
			}
			if config.Origin(key) == "" {
				t.Errorf("%v: %s has no effect", c.environ, key)
			}
		}
	}
}

// refused are environments with the variable that is refused.
var refused = []struct {
	environ []string
	want    string
}{
	{[]string{"REDIS_URL="}, "REDIS_URL"},
	{[]string{"REDIS_SOCKET_TYPE=unix"}, "REDIS_SOCKET_TYPE"},
	{[]string{"REDIS_URL=/var/run/secret.sock"}, "REDIS_SOCKET_TYPE"},
	{[]string{"REDIS_TYPE=secret"}, "REDIS_TYPE"},
	{[]string{"REDIS_TYPE=SENTINEL", "REDIS_URL=secret:1"}, "REDIS_URL"},
	{[]string{"REDIS_TYPE=SENTINEL", "REDIS_URL=m,a:1", "REDIS_AUTH=secret"}, "REDIS_SENTINEL_AUTH"},
	{[]string{"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true"}, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION"},
	{[]string{"REDIS_TLS=secret"}, "REDIS_TLS"},
	{[]string{"BACKEND_TYPE=memcache"}, "BACKEND_TYPE"},
	{[]string{"CONFIG_TYPE=secret"}, "CONFIG_TYPE"},
	{[]string{"MERGE_DOMAIN_CONFIG=true"}, "MERGE_DOMAIN_CONFIG"},
	{[]string{"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=authorization:secret"}, "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"},
	{[]string{"GRPC_UDS=/secret"}, "GRPC_UDS"},
	{[]string{"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=secret"}, "GRPC_SERVER_USE_TLS"},
	{[]string{"GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=c", "GRPC_SERVER_TLS_KEY=k", "GRPC_CLIENT_TLS_CACERT=a", "GRPC_CLIENT_TLS_SAN=secret"}, "GRPC_CLIENT_TLS_SAN"},
	{[]string{"SHADOW_MODE=true"}, "SHADOW_MODE"},
	{[]string{"QUOTA_MODE=true"}, "QUOTA_MODE"},
	{[]string{"LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_RESET_HEADER=secret"}, "LIMIT_RESET_HEADER"},
	{[]string{"LOG_LEVEL=secret"}, "LOG_LEVEL"},
	{[]string{"TRACING_ENABLED=true", "TRACING_EXPORTER_PROTOCOL=grpc"}, "TRACING_EXPORTER_PROTOCOL"},
}

// Variables whose meaning cannot be kept are refused by name, without their values.
func TestTranslate_Refused(t *testing.T) {
	for _, c := range refused {
		meant := ratelimitenv.Translate(append([]string{redisHost}, c.environ...))
		if len(meant.Refused) != 1 || meant.Refused[0].Variable != c.want {
			t.Errorf("%v: refused are %v, want %s", c.environ, meant.Refused, c.want)
		}
		if err := meant.Err(); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: the error is %v", c.environ, err)
		}
	}
}

// Variables without effect are named, those of other programs are not.
func TestTranslate_Ignored(t *testing.T) {
	for variable, noted := range map[string]bool{
		"REDIS_PIPELINE_WINDOW=1ms": true, "REDIS_PERSECOND=true": true, "REDIS_PERSECOND_URL=secret:1": false, "MEMCACHE_HOST_PORT=secret:1": true,
		"USE_STATSD=true": true, "USE_STATSD=false": false, "STATSD_PORT=1": false, "NEAR_LIMIT_RATIO=0.5": true, "DEBUG_PORT=6070": true,
		"REDIS_NO_SUCH=secret": true, "GRPC_SERVER_NO_SUCH=secret": true, "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH=/x": false, "GRPC_GO_LOG_SEVERITY_LEVEL=info": false, "LIMIT_LIMIT_HEADER=secret": false,
		"CONFIG_GRPC_XDS_NODE_ID=secret": true, "REDIS_TLS_CACERT=secret": true, "GRPC_CLIENT_TLS_CACERT=secret": true,
		"PATH=/bin": false, "REDIS_PORT_6379_TCP=tcp://1": false, "REDIS_SERVICE_PORT_CLIENT=1": false, "LOG_LEVEL=": false,
	} {
		meant := ratelimitenv.Translate([]string{redisHost, variable})
		name, _, _ := strings.Cut(variable, "=")
		found := slices.ContainsFunc(meant.Notes, func(n ratelimitenv.Note) bool { return n.Variable == name })
		if found != noted || meant.Err() != nil {
			t.Errorf("%s: noted %v, want %v (%v)", variable, found, noted, meant.Err())
		}
		if strings.Contains(fmt.Sprint(meant.Notes), "secret") {
			t.Errorf("%s: the notes are %v", variable, meant.Notes)
		}
	}
}
