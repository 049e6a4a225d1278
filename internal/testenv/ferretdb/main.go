// Command ferretdb is the MongoDB server of the tests: FerretDB over SQLite, with the
// address and directory of its arguments.
package main

import (
	"context"
	"io"
	"log"
	"log/slog"
	"net"
	"net/url"
	"os"

	"github.com/FerretDB/FerretDB/ferretdb"

	"github.com/fluxgate/fluxgate/internal/testenv/ferretdb/relay"
)

func main() {
	address, dir := os.Args[1], os.Args[2]
	// FerretDB sends no telemetry when it is embedded.
	server, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: "127.0.0.1:0"},
		Logger:    slog.New(slog.NewTextHandler(io.Discard, nil)),
		Handler:   "sqlite",
		SQLiteURL: "file:" + dir + "/",
	})
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(server.Run(context.Background())) }()
	uri, err := url.Parse(server.MongoDBURI())
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %s", address) // the tests wait for this line
	log.Fatal(relay.Serve(listener, uri.Host))
}
