// Quickstart limits every address to five requests, refilled at one a second,
// in memory.
//
//	go run ./quickstart
//	curl -i http://127.0.0.1:8080/
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

	set := fluxgate.Must(rules.NewSet("api-limits", rules.Rule{
		ID: "per-ip", Scope: rules.ScopeIP,
		Bands: []rules.Band{{Label: "burst", Capacity: 5, RefillTokens: 1, Refill: time.Second}},
	}))
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	engine := fluxgate.Must(fluxgate.New(store, fluxgate.Static(set)))
	limit := fluxgate.Must(httplimit.New(engine))

	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "hello") })

	listener := fluxgate.Must(net.Listen("tcp", *addr))
	log.Printf("listening on http://%s", listener.Addr())
	server := &http.Server{Handler: limit(hello), ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.Serve(listener))
}
