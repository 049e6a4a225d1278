package chaos

import (
	"flag"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

var (
	soakFor  = flag.Duration("soak", 0, "run the soak test for this time, and the abuse tests in their full size")
	soakSeed = flag.Uint64("seed", 0, "the seed of the soak test; 0 means a new one")
)

// After mixed load and random faults a server uses no more memory, goroutines,
// descriptors and connections than before.
func TestSoak(t *testing.T) {
	testenv.SkipShort(t)
	soak := Soak{Seed: *soakSeed, Duration: *soakFor, FaultFor: 3 * time.Second}
	if *soakFor == 0 {
		soak = Soak{Seed: *soakSeed, Duration: 2 * time.Second, FaultFor: 300 * time.Millisecond, WarmUp: 8}
	}
	if soak.Seed == 0 {
		soak.Seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", soak.Seed)
	result := soak.Run(t)
	t.Logf("%d faults; %s\nbegin: %v\nend:   %v", result.Faults, result.Load, result.Begin, result.End)
	for _, what := range result.Broken {
		t.Error(what)
	}
}
