// Gateway is a reverse proxy with limits: buckets in Redis, rules in MongoDB
// that can be edited while it runs, plans by tenant, client addresses behind
// trusted proxies.
//
//	go run ./gateway -redis redis://127.0.0.1:6379 -mongo mongodb://127.0.0.1:27017 -backend http://127.0.0.1:9000
//	curl -i -H 'X-Tenant: acme' http://127.0.0.1:8080/orders
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/clientip"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules/mongorules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/redisstore"
	"github.com/redis/go-redis/v9"
)

func main() {
	var (
		addr    = flag.String("addr", "127.0.0.1:8080", "where to listen")
		redisAt = flag.String("redis", "redis://127.0.0.1:6379", "where the buckets are")
		mongoAt = flag.String("mongo", "mongodb://127.0.0.1:27017", "where the rules are")
		backend = flag.String("backend", "http://127.0.0.1:9000", "where requests go")
		proxies = flag.String("trusted-proxies", "127.0.0.1/32", "networks of the load balancers in front")
		copies  = flag.String("copies", "", "folder for the last good rules")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, *addr, *redisAt, *mongoAt, *backend, *proxies, *copies)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, addr, redisAt, mongoAt, backend, proxies, copies string) error {
	// Buckets in Redis, busy ones in slices that are taken ahead; while Redis is away,
	// this process has its share of each limit.
	shared, err := redisstore.Open(ctx, redisAt, redisstore.Config{})
	if err != nil {
		return err
	}
	store := lease.New(shared, lease.Config{})
	defer func() { _ = store.Close() }()

	// Rules in MongoDB. Changes are announced over the same Redis, and polled.
	options, err := redis.ParseURL(redisAt)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	source, err := mongorules.Open(ctx, mongoAt, mongorules.Config{Database: "fluxgate"})
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	rules, err := reload.Start(ctx, source, reload.Config{
		RuleSets: []string{"api-limits"}, Redis: client, Copies: copies, Interval: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	defer func() { _ = rules.Close() }()

	engine, err := fluxgate.New(store, rules, fluxgate.WithRuleSet("api-limits"))
	if err != nil {
		return err
	}
	clients, err := clientip.New(clientip.Config{TrustedProxies: strings.Split(proxies, ",")})
	if err != nil {
		return err
	}
	limit, err := httplimit.New(engine,
		httplimit.WithClientIP(clients),
		httplimit.WithAttribute("tenant", httplimit.Header("X-Tenant")),
		httplimit.WithAPIKeyFunc(httplimit.Header("X-API-Key")),
		httplimit.WithoutPaths("/healthz"),
	)
	if err != nil {
		return err
	}

	target, err := url.Parse(backend)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	log.Printf("listening on http://%s", listener.Addr())
	server := &http.Server{Handler: limit(httputil.NewSingleHostReverseProxy(target)), ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return server.Shutdown(drain)
	}
}
