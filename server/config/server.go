package config

import "time"

// Server configures the listeners and the bounds of requests.
type Server struct {
	// HTTP is the address of the check API, as host:port. An empty host means all
	// addresses: set server.auth then, or restrict the network.
	HTTP string `key:"http" required:"yes"`
	// HTTPHosts are the names that the Host header of a check may have if http is
	// on loopback, besides localhost and addresses: names that a proxy on this
	// machine passes on. Other names are rejected, since a web page could have
	// resolved its own name to this machine. Forward-auth accepts any name.
	HTTPHosts []string `key:"http-hosts" is:"host"`
	// GRPC is the address of Envoy's rate limit service. Empty disables it.
	GRPC string `key:"grpc"`
	// Admin is the address of the admin API. Empty disables it; an address that is
	// not on loopback needs auth.
	Admin string `key:"admin"`
	// Metrics is the address of a listener with /metrics, health and readiness only, for
	// Prometheus. Empty disables it: http and admin serve them too.
	Metrics string `key:"metrics"`
	// AdminHosts are the names that the Host header of the admin API may have,
	// besides localhost and addresses. Other names are rejected, since a web page
	// could have resolved its own name to this machine.
	AdminHosts []string `key:"admin-hosts" is:"host"`
	// AdminTrustedProxies are addresses and networks of proxies before the admin
	// API. Their header with the client's address is trusted, also in the audit.
	AdminTrustedProxies []string `key:"admin-trusted-proxies" is:"proxy"`
	// AdminRate is the limit of the admin API in requests per minute and caller.
	AdminRate int64 `key:"admin-rate" min:"1" max:"1000000"`

	TLS      TLS      `key:"tls"`
	Auth     Auth     `key:"auth"`
	Audit    Audit    `key:"audit"`
	Timeouts Timeouts `key:"timeouts"`

	// MaxConnections is the maximum number of connections of http, and of grpc: at
	// most half of the files that the process may open. Requests on further
	// connections get 503; grpc closes them.
	MaxConnections int `key:"max-connections" min:"10" max:"1000000"`
	// MaxBody is the maximum size of a request body in bytes.
	MaxBody int64 `key:"max-body" min:"1024" max:"16777216"`
	// MaxBatch is the maximum number of checks in one request.
	MaxBatch int `key:"max-batch" min:"1" max:"10000"`

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
	Listeners []string `key:"listeners" oneof:"http grpc admin metrics" required:"yes"`
	// ReloadInterval is how often the files are checked for changes.
	ReloadInterval time.Duration `key:"reload-interval" min:"1s" max:"24h"`
}

// Timeouts bound how long a client may take.
type Timeouts struct {
	// ReadHeader bounds the reading of a request's header. The default is lower if
	// read is.
	ReadHeader time.Duration `key:"read-header" min:"10ms" max:"1h"`
	// Read bounds the reading of a whole request.
	Read time.Duration `key:"read" min:"10ms" max:"1h"`
	// Write bounds a request from its header to the end of the response. It must
	// be longer than wait-for-refill.max-wait-time.
	Write time.Duration `key:"write" min:"10ms" max:"1h"`
	// Idle is how long a connection is kept between two requests.
	Idle time.Duration `key:"idle" min:"10ms" max:"24h"`
}

// Drain configures the shutdown of the server.
type Drain struct {
	// Delay is how long the server reports not ready and still answers, before it
	// closes its listeners: the time that a load balancer needs to notice. With 0s
	// requests fail that a load balancer sends to a closing server.
	Delay time.Duration `key:"delay" min:"0s" max:"10m"`
	// Timeout bounds how long the server then waits for running requests.
	Timeout time.Duration `key:"timeout" min:"0s" max:"1h"`
}

// ForwardAuth is the endpoint that nginx, Traefik, Caddy and HAProxy call before
// they pass a request on.
type ForwardAuth struct {
	// Enabled serves the endpoint.
	Enabled bool `key:"enabled"`
	// DenyStatus is the status of the response to a rejected request: 429, or 401
	// or 403 for nginx, which accepts no other.
	DenyStatus int `key:"deny-status" min:"400" max:"499"`
	// DenyHeader is the header of such a response with the actual status. A proxy can
	// then distinguish a limit from another 403.
	DenyHeader string `key:"deny-header" is:"header"`
	// MethodHeader is the proxy's header with the method.
	MethodHeader string `key:"method-header" is:"header"`
	// URIHeader is the proxy's header with the path and the query.
	URIHeader string `key:"uri-header" is:"header"`
	// HostHeader is the proxy's header with the host.
	HostHeader string `key:"host-header" is:"header"`
	// UserHeader is the proxy's header with the user. Empty means none. Set it only if
	// the proxy removes the header of clients.
	UserHeader string `key:"user-header" is:"header"`
	// APIKeyHeader is the header with the API key of a client. Empty means none.
	APIKeyHeader string `key:"api-key-header" is:"header"`
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
	Level string `key:"level" oneof:"debug info warn error"`
	// Format is text for people or json for machines.
	Format string `key:"format" oneof:"text json"`
}

// Telemetry is metrics and traces.
type Telemetry struct {
	// Metrics serves /metrics for Prometheus.
	Metrics bool `key:"metrics"`
	// Insight records the last two minutes and the heaviest callers, for /v1/live,
	// /v1/fleet and /v1/callers of the admin API. It uses up to 30 MB of memory.
	Insight bool `key:"insight"`
	// OTLPEndpoint is the address that traces are sent to, such as
	// http://localhost:4318. Empty disables traces.
	OTLPEndpoint URI `key:"otlp-endpoint" is:"http"`
	// SampleRatio is the share of requests without a trace of their own that are
	// traced. Forward-auth ignores the traces of clients.
	SampleRatio float64 `key:"sample-ratio" min:"0" max:"1"`
}
