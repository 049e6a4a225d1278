// Command bare answers every call of Envoy's rate limit protocol and every HTTP request with
// the same bytes, and decides nothing: what grpc-go and net/http cost by themselves, on the
// machine on which FluxGate is measured. The timeouts of connections and the share of memory
// that garbage may take are those of FluxGate.
//
// A request to [waiting] is answered when another goroutine has seen it. net/http reads ahead
// while a request is under way, to notice that its client leaves. That costs little if the
// handler is done before, and every handler that asks another server pays for it.
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
	"runtime/debug"
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

// waiting is the path of requests that wait for another goroutine.
const waiting = "/waiting"

func main() {
	flag.Parse()
	debug.SetGCPercent(400) // as fluxgate serve
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
	queue := make(chan chan<- struct{}, 1_000)
	go func() {
		for seen := range queue {
			seen <- struct{}{}
		}
	}()
	handler := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if r.URL.Path == waiting {
			seen := make(chan struct{}, 1)
			queue <- seen
			<-seen
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		_, _ = w.Write(answer) // a client that has left
	}
	server := &http.Server{
		Addr: *httpAddr, Handler: http.HandlerFunc(handler),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
	}
	log.Fatal(server.ListenAndServe())
}
