// Command fluxgate is the rate limit server and its command line.
package main

import (
	"os"

	"github.com/fluxgate/fluxgate/internal/cli"
)

// version is set by the build: -ldflags "-X main.version=1.2.3".
var version = "dev"

func main() { os.Exit(cli.Main(version)) }
