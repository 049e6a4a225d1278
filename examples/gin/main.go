// The middleware with gin.
//
//	go run ./gin
//	curl -i http://127.0.0.1:8080/orders/17
package main

import (
	"flag"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

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

	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.Use(wrap(limit))
	router.GET("/orders/:id", func(c *gin.Context) { c.String(http.StatusOK, "order %s\n", c.Param("id")) })

	listener := fluxgate.Must(net.Listen("tcp", *addr))
	log.Printf("listening on http://%s", listener.Addr())
	server := &http.Server{Handler: router, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.Serve(listener))
}

// wrap makes gin's middleware of one that is net/http's: a request that is
// not let through has its response already.
func wrap(limit httplimit.Middleware) gin.HandlerFunc {
	return func(c *gin.Context) {
		passed := false
		next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			passed = true
			c.Request = r
			c.Next()
		})
		limit(next).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	}
}
