// A gRPC server that allows every address five calls at once and one more each
// second, and a client that shows what it answers.
//
//	go run ./grpc
//	go run ./grpc -call 127.0.0.1:8080
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/grpclimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen")
	call := flag.String("call", "", "address of a server to call seven times")
	flag.Parse()
	if *call != "" {
		callServer(*call)
		return
	}

	set := fluxgate.Must(rules.NewSet("api-limits", rules.Rule{
		ID: "per-ip", Scope: rules.ScopeIP, Bands: []rules.Band{{Capacity: 5, RefillTokens: 1, Refill: time.Second}},
	}))
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	limit := fluxgate.Must(grpclimit.New(fluxgate.Must(fluxgate.New(store, fluxgate.Static(set)))))
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(limit.Unary), grpc.ChainStreamInterceptor(limit.Stream))
	server.RegisterService(&greeterService, greeter{})

	listener := fluxgate.Must(net.Listen("tcp", *addr))
	log.Printf("listening on %s", listener.Addr())
	log.Fatal(server.Serve(listener))
}

// callServer calls a server and prints its answers.
func callServer(addr string) {
	conn := fluxgate.Must(grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials())))
	for range 7 {
		text, err := hello(context.Background(), conn, "gopher")
		fmt.Println(status.Code(err), text, retryAfter(err))
	}
	_ = conn.Close()
}

// retryAfter returns when to call again, as the server says.
func retryAfter(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			return "retry in " + retry.RetryDelay.AsDuration().String()
		}
	}
	return ""
}
