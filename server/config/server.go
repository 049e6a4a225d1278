package config

import "time"

// Server configures the listeners and the bounds of requests.
type Server struct {
	// HTTP is the address of the check API, as host:port. An empty host means all
	// addresses: set server.auth then, or restrict the network.
	HTTP string `key:"http" default:"127.0.0.1:8080" required:"yes" is:"listen"`
	// HTTPHosts are the names that the Host header of a check may have if http is
	// on loopback, besides localhost and addresses: names that a proxy on this
	// machine passes on. Other names are rejected, since a web page could have
	// resolved its own name to this machine. Forward-auth accepts any name.
	HTTPHosts []string `key:"http-hosts" is:"host"`
	// GRPC is the address of Envoy's rate limit service. Empty disables it.
	GRPC string `key:"grpc" is:"listen"`
	// Admin is the address of the admin API. Empty disables it; an address that is
	// not on loopback needs auth.
	Admin string `key:"admin" default:"127.0.0.1:9090" is:"listen"`
	// Metrics is the address of a listener with /metrics, health and readiness only, for
	// Prometheus. Empty disables it: http and admin serve them too.
	Metrics string `key:"metrics" is:"listen"`
	// AdminHosts are the names that the Host header of the admin API may have,
	// besides localhost and addresses. Other names are rejected, since a web page
	// could have resolved its own name to this machine.
	AdminHosts []string `key:"admin-hosts" is:"host"`
	// AdminTrustedProxies are addresses and networks of proxies before the admin
	// API. Their header with the client's address is trusted, also in the audit.
	AdminTrustedProxies []string `key:"admin-trusted-proxies" is:"proxy"`
	// AdminRate is the limit of the admin API in requests per minute and caller.
	AdminRate int64 `key:"admin-rate" default:"600" min:"1" max:"1000000"`

	TLS      TLS      `key:"tls"`
	Auth     Auth     `key:"auth"`
	Audit    Audit    `key:"audit"`
	Timeouts Timeouts `key:"timeouts"`

	// MaxConnections is the maximum number of connections of http, and of grpc: at
	// most half of the files that the process may open. Requests on further
	// connections get 503; grpc closes them.
	MaxConnections int `key:"max-connections" default:"10000" min:"10" max:"1000000"`
	// MaxBody is the maximum size of a request body in bytes.
	MaxBody int64 `key:"max-body" default:"65536" min:"1024" max:"16777216"`
	// MaxBatch is the maximum number of checks in one request.
	MaxBatch int `key:"max-batch" default:"100" min:"1" max:"10000"`

	Drain Drain `key:"drain"`
}

// TLS configures the server's certificate and the verification of client certificates.
type TLS struct {
	// CertFile is the certificate with its chain as PEM. Empty means no TLS.
	CertFile string `key:"cert-file"`
	// KeyFile is the private key of the certificate as PEM.
	KeyFile string `key:"key-file"`
	// ClientCAFile is a PEM file of CA certificates that verify clients. If it is set,
	// a client needs a certificate to connect.
	ClientCAFile string `key:"client-ca-file" is:"ca"`
	// Listeners are the listeners that use TLS.
	Listeners []string `key:"listeners" default:"http,grpc,admin,metrics" oneof:"http grpc admin metrics" required:"yes"`
	// ReloadInterval is how often the files are checked for changes.
	ReloadInterval time.Duration `key:"reload-interval" default:"1m" min:"1s" max:"24h"`
}

// Timeouts bound how long a client may take.
type Timeouts struct {
	// ReadHeader bounds the reading of a request's header, as read does.
	ReadHeader time.Duration `key:"read-header" default:"5s" min:"10ms" max:"1h"`
	// Read bounds the reading of a whole request.
	Read time.Duration `key:"read" default:"10s" min:"10ms" max:"1h"`
	// Write bounds a request from its header to the end of the response. It must
	// be longer than wait-for-refill.max-wait-time.
	Write time.Duration `key:"write" default:"30s" min:"10ms" max:"1h"`
	// Idle is how long a connection is kept between two requests.
	Idle time.Duration `key:"idle" default:"2m" min:"10ms" max:"24h"`
}

// Drain configures the shutdown of the server.
type Drain struct {
	// Delay is how long the server reports not ready and still answers, before it
	// closes its listeners: the time that a load balancer needs to notice. With 0s
	// requests fail that a load balancer sends to a closing server.
	Delay time.Duration `key:"delay" default:"3s" min:"0s" max:"10m"`
	// Timeout bounds how long the server then waits for running requests.
	Timeout time.Duration `key:"timeout" default:"30s" min:"0s" max:"1h"`
}

// ForwardAuth is the endpoint that nginx, Traefik, Caddy and HAProxy call before
// they pass a request on.
type ForwardAuth struct {
	// Enabled serves the endpoint.
	Enabled bool `key:"enabled" default:"true"`
	// DenyStatus is the status of the response to a rejected request: 429, or 401
	// or 403 for nginx, which accepts no other.
	DenyStatus int `key:"deny-status" default:"429" min:"400" max:"499"`
	// DenyHeader is the header of such a response with the actual status. A proxy can
	// then distinguish a limit from another 403.
	DenyHeader string `key:"deny-header" default:"X-Fluxgate-Status" is:"header" required:"yes"`
	// MethodHeader is the proxy's header with the method.
	MethodHeader string `key:"method-header" default:"X-Forwarded-Method" is:"header" required:"yes"`
	// URIHeader is the proxy's header with the path and the query.
	URIHeader string `key:"uri-header" default:"X-Forwarded-Uri" is:"header" required:"yes"`
	// HostHeader is the proxy's header with the host.
	HostHeader string `key:"host-header" default:"X-Forwarded-Host" is:"header" required:"yes"`
	// UserHeader is the proxy's header with the user. Empty means none. Set it only if
	// the proxy removes the header of clients.
	UserHeader string `key:"user-header" is:"header"`
	// APIKeyHeader is the header with the API key of a client. Empty means none.
	APIKeyHeader string `key:"api-key-header" default:"X-API-Key" is:"header"`
}

// Envoy is Envoy's rate limit service, which listens on server.grpc.
type Envoy struct {
	// ResponseHeaders adds X-RateLimit headers and Retry-After to responses. Envoy can
	// add its own: see enable_x_ratelimit_headers.
	ResponseHeaders bool `key:"response-headers"`
}

// Log is the server's log.
type Log struct {
	// Level is the lowest level that is logged.
	Level string `key:"level" default:"info" oneof:"debug info warn error"`
	// Format is text for people or json for machines.
	Format string `key:"format" default:"text" oneof:"text json"`
}

// Telemetry is metrics and traces.
type Telemetry struct {
	// Metrics serves /metrics for Prometheus.
	Metrics bool `key:"metrics" default:"true"`
	// Insight records the last two minutes and the heaviest callers, for /v1/live,
	// /v1/fleet and /v1/callers of the admin API. It uses up to 30 MB of memory.
	Insight bool `key:"insight" default:"true"`
	// OTLPEndpoint is the address that traces are sent to, such as
	// http://localhost:4318. Empty disables traces.
	OTLPEndpoint URI `key:"otlp-endpoint" is:"http"`
	// SampleRatio is the share of requests without a trace of their own that are
	// traced. Forward-auth ignores the traces of clients.
	SampleRatio float64 `key:"sample-ratio" default:"0.1" min:"0" max:"1"`
}
