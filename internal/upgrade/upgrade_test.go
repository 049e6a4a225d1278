package upgrade_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

var (
	former    = flag.String("former", "", "the program of the former version; empty means that of this tree")
	decisions = flag.Int64("decisions", 4_000, "how many decisions callers get in each direction")
)

func TestMain(m *testing.M) { testenv.Main(m) }

// programs returns the former version and this one.
func programs(t *testing.T) (before, now string) {
	t.Helper()
	now = testenv.Fluxgate(t)
	if *former == "" {
		return now, now
	}
	return *former, now
}

// Four servers are upgraded one by one, with a return half-way, and then all of them go back.
// Two have leases and two have not. Callers use every combination of versions.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	before, now := programs(t)
	redis := testenv.StartStandalone(t, testenv.Config{})
	f := newFleet(t, redis.URI())
	modes := []string{"redis.leases=auto", "redis.leases=off", "redis.leases=auto", "redis.leases=off"}
	for _, mode := range modes {
		f.use(append(f.servers(), f.start("former", before, mode))...)
	}
	load := startLoad(t, f)
	upgrade := func(i int) { f.replace(i, f.start("current", now, modes[i])) }
	goBack := func(i int) { f.replace(i, f.start("former", before, modes[i])) }
	steps := []func(){
		func() { upgrade(0) }, func() { upgrade(1) }, func() { goBack(0) }, func() { goBack(1) },
		func() { upgrade(0) }, func() { upgrade(1) }, func() { upgrade(2) }, func() { upgrade(3) },
	}
	load.during(steps)
	up := load.String()
	load.during([]func(){func() { goBack(3) }, func() { goBack(2) }, func() { goBack(1) }, func() { goBack(0) }})
	load.stop()
	f.use(f.start("former", before), f.start("current", now))
	load.verify()
	t.Logf("upgrade: %s\nand back: %s", up, load)
}

// during takes steps while callers get the decisions of one direction.
func (l *load) during(steps []func()) {
	each := *decisions / int64(len(steps)+1)
	for _, step := range append(steps, func() {}) {
		for until := l.requests.Load() + each; l.requests.Load() < until && !l.t.Failed(); {
			time.Sleep(10 * time.Millisecond)
		}
		step()
	}
}

func (l *load) String() string {
	text := fmt.Sprintf("%d requests, %d settled by the other version", l.requests.Load(), l.crossed.Load())
	for _, k := range kinds {
		text += fmt.Sprintf("; %s: %d admitted", k.name, l.of(k).admitted.Load())
	}
	return text
}
