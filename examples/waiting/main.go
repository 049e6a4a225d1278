// Waiting protects a database that can take ten queries a second: requests wait
// for their tokens, in order of arrival. A request that would wait for more than
// two seconds is refused at once.
//
//	go run ./waiting
//	for i in $(seq 25); do curl -s -o /dev/null -w '%{http_code} after %{time_total}s\n' http://127.0.0.1:8080/report & done; wait
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen")
	flag.Parse()

	set := fluxgate.Must(rules.NewSet("database", rules.Rule{
		ID: "reports", Paths: []string{"/report"},
		OnLimitExceed: rules.WaitForRefill,
		Bands:         []rules.Band{{Label: "queries", Capacity: 1, Refill: 100 * time.Millisecond}},
	}))
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(set), fluxgate.WithWaiting(2*time.Second, 100)))
	limit := fluxgate.Must(httplimit.New(engine))

	// A client that hangs up while it waits gives its turn back.
	report := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "the report") })

	listener := fluxgate.Must(net.Listen("tcp", *addr))
	log.Printf("listening on http://%s", listener.Addr())
	server := &http.Server{Handler: limit(report), ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.Serve(listener))
}
