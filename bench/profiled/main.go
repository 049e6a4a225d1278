// Command profiled is fluxgate with a profile of its processor time, which it writes to the
// file that PROFILE names when it ends.
package main

import (
	"log"
	"os"
	"runtime/pprof"

	"github.com/fluxgate/fluxgate/internal/cli"
)

func main() {
	file, err := os.Create(os.Getenv("PROFILE")) //nolint:gosec // the figures name it
	if err != nil {
		log.Fatal(err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		log.Fatal(err)
	}
	code := cli.Main("profiled")
	pprof.StopCPUProfile()
	if err := file.Close(); err != nil {
		log.Fatal(err)
	}
	os.Exit(code)
}
