package client_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
)

// A client that reports failures, and lets requests pass meanwhile.
func ExampleConfig() {
	token := os.Getenv("FLUXGATE_TOKEN")
	limiter, err := client.New("https://fluxgate.example.com:8080", client.Config{
		Token:     client.Secret(token),
		OnFailure: rules.FailOpen,
		Failed:    func(ctx context.Context, err error) { slog.WarnContext(ctx, "no decision", "error", err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	decision, err := limiter.Check(context.Background(), &fluxgate.Request{UserID: "ada", Method: "GET", Path: "/api/orders"})
	fmt.Println(decision.Allowed, err)
}

// A service that limits its requests by asking a server, and lets them pass
// while it is away.
func ExampleNew() {
	limiter, err := client.New("http://127.0.0.1:1", client.Config{ // no server listens there
		Token:     []byte("the-services-own"),
		OnFailure: rules.FailOpen,
		Failed:    func(context.Context, error) { fmt.Println("the server is away") },
		Timeout:   10 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	limit, err := httplimit.New(limiter, httplimit.WithRuleSet("api-limits"))
	if err != nil {
		log.Fatal(err)
	}
	service := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }))

	response := httptest.NewRecorder()
	service.ServeHTTP(response, httptest.NewRequest(http.MethodGet, "/orders", http.NoBody))
	fmt.Print(response.Code, " ", response.Body)
	_ = limiter.Close()
	// Output:
	// the server is away
	// 200 hello
}
