package config

import "time"

// Server is where the server listens, and what it takes.
type Server struct {
	// HTTP is where checks are answered, as host:port. An empty host means all
	// addresses.
	HTTP string `key:"http"`
	// HTTPHosts are the names by which checks may be asked for where http is on
	// loopback, besides localhost and addresses: those that a proxy on this
	// machine passes on in the Host header. Any other name is refused, since a
	// web page could have resolved its own name to this machine. Forward-auth
	// takes any name.
	HTTPHosts []string `key:"http-hosts"`
	// GRPC is where Envoy's rate limit service is answered. Empty means
	// nowhere.
	GRPC string `key:"grpc"`
	// Admin is where the admin API is answered. Empty means nowhere; off
	// loopback it needs auth.
	Admin string `key:"admin"`
	// AdminHosts are the names by which the admin API may be asked, besides
	// localhost and addresses. Any other name in a Host header is refused: a
	// page in somebody's browser could have made its own name lead here.
	AdminHosts []string `key:"admin-hosts"`
	// AdminTrustedProxies are addresses and networks of proxies before the admin
	// listener. What they say about who asks is believed, in the audit too.
	AdminTrustedProxies []string `key:"admin-trusted-proxies"`
	// AdminRate is how many requests a minute one caller may make of the admin
	// API.
	AdminRate int64 `key:"admin-rate" min:"1" max:"1000000"`

	TLS      TLS      `key:"tls"`
	Auth     Auth     `key:"auth"`
	Audit    Audit    `key:"audit"`
	Timeouts Timeouts `key:"timeouts"`

	// MaxBody is how many bytes the body of a request may have.
	MaxBody int64 `key:"max-body" min:"1024" max:"16777216"`
	// MaxBatch is how many checks one request may ask for.
	MaxBatch int `key:"max-batch" min:"1" max:"10000"`

	Drain Drain `key:"drain"`
}

// TLS is the server's certificate, and whom it asks for theirs.
type TLS struct {
	// CertFile is the certificate, with those that vouch for it, as PEM. Empty
	// means no TLS.
	CertFile string `key:"cert-file"`
	// KeyFile is its private key as PEM.
	KeyFile string `key:"key-file"`
	// ClientCAFile has the authorities whose clients may connect, as PEM. With
	// it a client without a certificate cannot.
	ClientCAFile string `key:"client-ca-file"`
	// ReloadInterval is how often the files are looked at for new ones.
	ReloadInterval time.Duration `key:"reload-interval" min:"1s" max:"24h"`
}

// Timeouts bound how long a client may take.
type Timeouts struct {
	// ReadHeader bounds the reading of a request's header. The default is less
	// where read is.
	ReadHeader time.Duration `key:"read-header" min:"10ms" max:"1h"`
	// Read bounds the reading of a whole request.
	Read time.Duration `key:"read" min:"10ms" max:"1h"`
	// Write bounds a request from its header to the end of the answer. It must
	// be longer than wait-for-refill.max-wait-time.
	Write time.Duration `key:"write" min:"10ms" max:"1h"`
	// Idle is how long a connection is kept between two requests.
	Idle time.Duration `key:"idle" min:"10ms" max:"24h"`
}

// Drain is how the server ends.
type Drain struct {
	// Delay is how long it says that it is not ready, and answers all the same,
	// before it closes: the time a load balancer needs to notice.
	Delay time.Duration `key:"delay" min:"0s" max:"10m"`
	// Timeout bounds how long it then waits for requests to end.
	Timeout time.Duration `key:"timeout" min:"0s" max:"1h"`
}

// ForwardAuth is the endpoint that nginx, Traefik, Caddy and HAProxy ask before
// they pass a request on.
type ForwardAuth struct {
	// Enabled answers there.
	Enabled bool `key:"enabled"`
	// DenyStatus is the answer to a request that does not pass: 429, or 401 or
	// 403 for nginx, which understands no other.
	DenyStatus int `key:"deny-status" min:"400" max:"499"`
	// DenyHeader is where such an answer says its own status, so that a proxy
	// can tell a limit from another 403.
	DenyHeader string `key:"deny-header"`
	// MethodHeader is where the proxy says the method.
	MethodHeader string `key:"method-header"`
	// URIHeader is where it says the path and the query.
	URIHeader string `key:"uri-header"`
	// HostHeader is where it says the host.
	HostHeader string `key:"host-header"`
	// UserHeader is where it says the user. Empty means nowhere: set it only
	// where the proxy removes what clients write there.
	UserHeader string `key:"user-header"`
	// APIKeyHeader is where clients send their API key. Empty means nowhere.
	APIKeyHeader string `key:"api-key-header"`
}

// Log is what the server says.
type Log struct {
	// Level is the least important that is said.
	Level string `key:"level" oneof:"debug info warn error"`
	// Format is for people or for machines.
	Format string `key:"format" oneof:"text json"`
}

// Telemetry is what others can measure.
type Telemetry struct {
	// Metrics are answered on /metrics.
	Metrics bool `key:"metrics"`
	// OTLPEndpoint is where traces go, such as http://localhost:4318. Empty
	// means that none are made.
	OTLPEndpoint URI `key:"otlp-endpoint"`
	// SampleRatio is the share of requests that are traced, of those that come
	// without a trace of their own. Clients of forward-auth do not count as
	// having one.
	SampleRatio float64 `key:"sample-ratio" min:"0" max:"1"`
}
