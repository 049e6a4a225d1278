// Package xdsserver is an xDS server of rate limit configurations for tests, made of
// go-control-plane as that of Envoy Gateway is.
package xdsserver

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// Node is the id of the node that gets the configurations, which is that of Envoy Gateway.
const Node = "envoy-ratelimit"

// Server is an xDS server. Its methods may be called concurrently.
type Server struct {
	addr  string
	certs *testenv.Certificates
	cache cache.SnapshotCache

	mu       sync.Mutex // guards the fields below
	grpc     *grpc.Server
	requests []*discovery.DiscoveryRequest
}

// Start starts a server without configurations, which ends with the test. With
// certificates it uses TLS and asks for that of the client.
func Start(tb testing.TB, certs *testenv.Certificates) *Server {
	tb.Helper()
	s := New(tb, certs)
	s.Run(tb)
	return s
}

// New returns a server that is not running.
func New(tb testing.TB, certs *testenv.Certificates) *Server {
	tb.Helper()
	s := &Server{addr: testenv.FreeAddr(tb), certs: certs, cache: cache.NewSnapshotCache(false, cache.IDHash{}, nil)}
	tb.Cleanup(s.Stop)
	return s
}

// Addr is the address of the server, running or not.
func (s *Server) Addr() string { return s.addr }

// Run starts the server.
func (s *Server) Run(tb testing.TB) {
	tb.Helper()
	var options []grpc.ServerOption
	if s.certs != nil {
		config := s.certs.ClientConfig()
		config.ClientCAs, config.ClientAuth = config.RootCAs, tls.RequireAndVerifyClientCert
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	serving := grpc.NewServer(options...)
	callbacks := server.CallbackFuncs{StreamRequestFunc: s.received}
	discovery.RegisterAggregatedDiscoveryServiceServer(serving, server.NewServer(context.WithoutCancel(tb.Context()), s.cache, callbacks))
	var config net.ListenConfig
	listener, err := config.Listen(tb.Context(), "tcp", s.addr)
	if err != nil {
		tb.Fatal(err)
	}
	s.mu.Lock()
	s.grpc = serving
	s.mu.Unlock()
	go func() { _ = serving.Serve(listener) }()
}

// Stop ends the server and its connections.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grpc != nil {
		s.grpc.Stop()
	}
}

// Set replaces all configurations.
func (s *Server) Set(tb testing.TB, version string, configs ...*pb.RateLimitConfig) {
	tb.Helper()
	resources := make([]types.Resource, len(configs))
	for i, c := range configs {
		resources[i] = c
	}
	snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: resources})
	if err == nil {
		err = s.cache.SetSnapshot(tb.Context(), Node, snapshot)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func (s *Server) received(_ int64, request *discovery.DiscoveryRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	return nil
}

// Requests are all requests that were received.
func (s *Server) Requests() []*discovery.DiscoveryRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*discovery.DiscoveryRequest(nil), s.requests...)
}

// Acked reports whether a client has accepted a version.
func (s *Server) Acked(version string) bool {
	for _, r := range s.Requests() {
		if r.GetVersionInfo() == version && r.GetResponseNonce() != "" && r.GetErrorDetail() == nil {
			return true
		}
	}
	return false
}

// Nacks are what clients have said of responses that they refused.
func (s *Server) Nacks() []string {
	var all []string
	for _, r := range s.Requests() {
		if r.GetErrorDetail() != nil {
			all = append(all, r.GetErrorDetail().GetMessage())
		}
	}
	return all
}
