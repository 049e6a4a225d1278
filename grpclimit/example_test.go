package grpclimit_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/grpclimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

// Two calls a minute for every address.
func Example() {
	set := fluxgate.Must(rules.NewSet("api-limits", rules.Rule{ID: "per-ip", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(2)}}))
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(set)))
	limit := fluxgate.Must(grpclimit.New(engine))
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer()) // your services

	listener := fluxgate.Must(net.Listen("tcp", "127.0.0.1:0"))
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	conn := fluxgate.Must(grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))
	defer conn.Close()
	for range 3 {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(context.Background(), new(grpc_health_v1.HealthCheckRequest))
		fmt.Println(status.Code(err))
		for _, detail := range status.Convert(err).Details() {
			switch detail := detail.(type) {
			case *errdetails.RetryInfo:
				fmt.Println("retry after", detail.RetryDelay.AsDuration().Round(1e9))
			case *errdetails.QuotaFailure:
				fmt.Println("exceeded:", detail.Violations[0].Subject)
			}
		}
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
	// exceeded: per-ip.2-per-1m
	// retry after 30s
}

// A limit of calls for every method but one, by tenant behind a proxy, and a limit
// of the bytes that one method receives.
func ExampleNew() {
	calls := fluxgate.Must(rules.NewSet("calls", rules.Rule{ID: "per-tenant", Scope: rules.ScopeCustom, KeyFields: []string{"attr:tenant"}, Bands: []rules.Band{rules.PerMinute(100)}}))
	bytes := fluxgate.Must(rules.NewSet("bytes", rules.Rule{ID: "upload", Scope: rules.ScopeIP, Bands: []rules.Band{rules.PerMinute(1_000_000)}}))
	engine := fluxgate.Must(fluxgate.New(fluxgate.Must(memstore.New(memstore.Config{})), fluxgate.Static(calls, bytes)))

	proxies := grpclimit.WithClientIP(fluxgate.Must(clientip.New(clientip.Config{TrustedProxies: []string{"10.1.0.0/16"}})))
	perCall := fluxgate.Must(grpclimit.New(engine, proxies, grpclimit.WithRuleSet("calls"),
		grpclimit.WithoutMethods("/grpc.health.v1.Health/*"),
		grpclimit.WithAttribute("tenant", grpclimit.Metadata("x-tenant"))))
	perByte := fluxgate.Must(grpclimit.New(engine, proxies, grpclimit.WithRuleSet("bytes"),
		grpclimit.WithMethods("/shop.Files/Put"), grpclimit.WithCostFunc(sizeOf)))
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(perCall.Unary, perByte.Unary),
		grpc.ChainStreamInterceptor(perCall.Stream, perByte.Stream))
	server.Stop()
}

func sizeOf(call *grpclimit.Call) int64 {
	message, ok := call.Message.(interface{ GetValue() []byte })
	if !ok {
		return 1
	}
	return int64(len(message.GetValue()))
}
