package upgrade_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

var (
	former = flag.String("former", "", "the program of the former version; empty means that of this tree")
	stage  = flag.Duration("stage", time.Second, "how long callers use each combination of versions")
)

func TestMain(m *testing.M) { testenv.Main(m) }

// Two servers are replaced one by one, and back: each combination of versions serves for a while.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	current := testenv.Fluxgate(t)
	before := current
	if *former != "" {
		before = *former
	}
	redis := testenv.StartStandalone(t, testenv.Config{})
	f := newFleet(t, redis.URI())
	f.use(f.start("former", before), f.start("former", before))
	load := startLoad(t, f)
	for range 2 {
		time.Sleep(*stage)
		f.replace("former", f.start("current", current))
	}
	for range 2 {
		time.Sleep(*stage)
		f.replace("current", f.start("former", before))
	}
	time.Sleep(*stage)
	load.stop()
	f.use(f.start("former", before), f.start("current", current))
	load.verify()
	t.Log(load)
}

func (l *load) String() string {
	text := fmt.Sprintf("%d requests, %d settled by the other version", l.requests.Load(), l.crossed.Load())
	for _, k := range kinds {
		text += fmt.Sprintf("; %s: %d admitted", k.name, l.of(k).admitted.Load())
	}
	return text
}
