// Command bare answers every call of Envoy's rate limit protocol and every HTTP request with
// the same bytes, and decides nothing: what grpc-go and net/http cost by themselves, on the
// machine on which FluxGate is measured.
//
//	bare -http 127.0.0.1:8080 -grpc 127.0.0.1:8081 -http-answer FILE -grpc-answer FILE
package main

import (
	"context"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

var (
	httpAddr   = flag.String("http", "", "the `address` of HTTP")
	grpcAddr   = flag.String("grpc", "", "the `address` of gRPC")
	httpAnswer = flag.String("http-answer", "", "the `file` with the body of the answer")
	grpcAnswer = flag.String("grpc-answer", "", "the `file` with the encoded answer")
)

func main() {
	flag.Parse()
	go serveHTTP(read(*httpAnswer))
	answer := new(pb.RateLimitResponse)
	if err := proto.Unmarshal(read(*grpcAnswer), answer); err != nil {
		log.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", *grpcAddr)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterRateLimitServiceServer(server, &service{answer: answer})
	log.Fatal(server.Serve(listener))
}

func read(file string) []byte {
	text, err := os.ReadFile(file) //nolint:gosec // the figures name it
	if err != nil {
		log.Fatal(err)
	}
	return text
}

type service struct {
	pb.UnimplementedRateLimitServiceServer
	answer *pb.RateLimitResponse
}

func (s *service) ShouldRateLimit(context.Context, *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	return s.answer, nil
}

// serveHTTP answers requests when their bodies were read, as a handler that decides does.
func serveHTTP(answer []byte) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer) // a client that has left
	}
	server := &http.Server{Addr: *httpAddr, Handler: http.HandlerFunc(handler), ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}
