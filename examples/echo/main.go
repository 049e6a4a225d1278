// The middleware with echo.
//
//	go run ./echo
//	curl -i http://127.0.0.1:8080/orders/17
package main

import (
	"flag"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "where to listen")
	flag.Parse()

	set := fluxgate.Must(rules.NewSet("api-limits", rules.Rule{
		ID: "per-ip", Scope: rules.ScopeIP, Bands: []rules.Band{{Capacity: 5, RefillTokens: 1, Refill: time.Second}},
	}))
	store := fluxgate.Must(memstore.New(memstore.Config{}))
	limit := fluxgate.Must(httplimit.New(fluxgate.Must(fluxgate.New(store, fluxgate.Static(set)))))

	router := echo.New()
	router.Use(echo.WrapMiddleware(limit))
	router.GET("/orders/:id", func(c echo.Context) error { return c.String(http.StatusOK, "order "+c.Param("id")+"\n") })

	listener := fluxgate.Must(net.Listen("tcp", *addr))
	log.Printf("listening on http://%s", listener.Addr())
	server := &http.Server{Handler: router, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.Serve(listener))
}
