// Llm-gateway is a reverse proxy for OpenAI's chat completions, and for servers with
// the same API. It limits requests, tokens and money by team: what a request may cost
// is reserved first, and corrected when its answer ends.
//
//	export GATEWAY_KEYS=research:my-key OPENAI_API_KEY=...
//	go run ./llm-gateway
//	curl -i -H 'Authorization: Bearer my-key' http://127.0.0.1:8080/v1/chat/completions \
//	  -d '{"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 20}'
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/rules/filerules"
	"github.com/fluxgate/fluxgate/rules/reload"
	"github.com/fluxgate/fluxgate/store"
	"github.com/fluxgate/fluxgate/store/lease"
	"github.com/fluxgate/fluxgate/store/memstore"
	"github.com/fluxgate/fluxgate/store/redisstore"
)

func main() {
	var (
		addr     = flag.String("addr", "127.0.0.1:8080", "where to listen")
		upstream = flag.String("upstream", "https://api.openai.com", "where requests go")
		file     = flag.String("rules", "llm-gateway/rules.yaml", "file with the rule set llm, read again when it changes")
		redisAt  = flag.String("redis", "", "where budgets are kept, to share them; the default is in memory")
	)
	flag.Parse()
	if err := run(context.Background(), *addr, *upstream, *file, *redisAt); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, addr, upstream, file, redisAt string) error {
	source, err := filerules.Open(file, filerules.Config{})
	if err != nil {
		return err
	}
	rules, err := reload.Start(ctx, source, reload.Config{RuleSets: []string{"llm"}})
	if err != nil {
		return err
	}
	var buckets store.Store = fluxgate.Must(memstore.New(memstore.Config{}))
	if redisAt != "" {
		shared, err := redisstore.Open(ctx, redisAt, redisstore.Config{})
		if err != nil {
			return err
		}
		buckets = lease.New(shared, lease.Config{})
	}
	engine, err := fluxgate.New(buckets, rules, fluxgate.WithRuleSet("llm"), fluxgate.WithMissingRule(false))
	if err != nil {
		return err
	}
	gateway, err := newGateway(engine, upstream, os.Getenv("OPENAI_API_KEY"), os.Getenv("GATEWAY_KEYS"))
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	log.Printf("listening on http://%s", listener.Addr())
	server := &http.Server{Handler: gateway, ReadHeaderTimeout: 5 * time.Second}
	return server.Serve(listener)
}
