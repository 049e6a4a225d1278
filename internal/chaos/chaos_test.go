package chaos_test

import (
	"flag"
	"regexp"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/chaos"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

var (
	full = flag.Bool("chaos", false, "run every fault and compare with the bars of time, which takes minutes")
	only = flag.String("fault", "", "with -chaos, run the faults whose name matches this expression")
)

func TestMain(m *testing.M) { testenv.Main(m) }

// Under every fault of the short form no caller sees an error, no bucket admits more
// than its bound, and everything is normal afterwards.
func TestFaults_Short(t *testing.T) {
	testenv.SkipShort(t)
	if *full {
		t.Skip("TestFaults_Full runs every fault")
	}
	timing := chaos.Timing{Before: shortBefore, During: shortDuring}
	for _, f := range chaos.Faults() {
		if !f.Short {
			continue
		}
		t.Run(f.String(), func(t *testing.T) {
			row := chaos.Run(t, f, chaos.Load{PerSecond: 1_000}, timing)
			t.Log("\n" + chaos.Table([]chaos.Row{row}))
			for _, what := range row.Broken {
				t.Error(what)
			}
		})
	}
}

// runInTime injects a fault, and again if a promise about time was missed while the
// driver itself was late: the machine was busy with something else.
func runInTime(t *testing.T, f chaos.Fault) (row chaos.Row) {
	for try := 1; ; try++ {
		row = chaos.Run(t, f, chaos.Load{}, chaos.Timing{})
		if len(row.Missed) == 0 || row.Late < 20*time.Millisecond || try == 3 {
			return row
		}
		t.Logf("the driver was %v late; once more: %q", row.Late, row.Missed)
	}
}

// Under every fault the promises of docs/reliability.md hold: those about
// correctness, and those about time.
func TestFaults_Full(t *testing.T) {
	if !*full {
		t.Skip("make chaos runs every fault")
	}
	wanted := regexp.MustCompile(*only)
	var rows []chaos.Row
	for _, f := range chaos.Faults() {
		if wanted.MatchString(f.String()) {
			t.Run(f.String(), func(t *testing.T) { rows = append(rows, runInTime(t, f)) })
		}
	}
	t.Log("\n" + chaos.Table(rows))
	for i := range rows {
		for _, what := range append(rows[i].Broken, rows[i].Missed...) {
			t.Errorf("%s under %s: %s", rows[i].Fault, rows[i].Path, what)
		}
	}
}
