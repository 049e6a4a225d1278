package fleet

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/lease"
)

var (
	all    = flag.Bool("simulate", false, "simulate all fleets and write the results into docs, which takes minutes")
	render = flag.Bool("render", false, "write the table and the plot of the results into docs")
)

const (
	page      = "../../docs/scaling/fleets.md"
	file      = "../../docs/scaling/fleet.csv"
	picture   = "../../docs/scaling/fleet.svg"
	tableFrom = "<!-- The table is written by make simulate-fleet. -->\n\n"
	tableTo   = "\n<!-- The end of the table. -->\n"
)

const (
	strict = rules.ConsistencyStrict
	auto   = rules.ConsistencyAuto
	leased = rules.ConsistencyLeased

	half = time.Second / 2
	most = 10_000_000
)

// scenarios are those of the documentation. A fleet without leases that is overloaded is
// not simulated with more requests.
var scenarios = []Scenario{
	{strict, 1, 10_000, 0.9, 0, 5 * time.Second, 0},
	{strict, 10, 100_000, 0.9, 0, 5 * time.Second, 0},
	{strict, 1_000, 10_000, 0.9, 0, 5 * time.Second, 0},
	{strict, 1_000, 50_000, 0.9, 0, 5 * time.Second, 0},
	{strict, 1_000, 100_000, 0.9, 0, 5 * time.Second, 0},
	{auto, 1, 10_000, 0.9, 0, 5 * time.Second, 0},
	{auto, 10, 100_000, 0.9, 0, 5 * time.Second, 0},
	{auto, 100, 1_000_000, 0.9, 0, time.Second, 0},
	{auto, 1_000, 10_000, 0.9, 0, 5 * time.Second, 0},
	{auto, 1_000, 100_000, 0.9, 0, 5 * time.Second, 0},
	{auto, 1_000, 1_000_000, 0.9, 0, time.Second, 0},
	{auto, 1_000, most, 0.9, 0, time.Second, 0},
	{leased, 1_000, 10_000, 0.9, 0, 5 * time.Second, 0},
	{leased, 1_000, 100_000, 0.9, 0, 5 * time.Second, 0},
	{leased, 1_000, 1_000_000, 0.9, 0, time.Second, 0},
	{auto, 1, 10_000, 1.5, 0, 5 * time.Second, 0},
	{auto, 10, 100_000, 1.5, 0, 5 * time.Second, 0},
	{auto, 100, 1_000_000, 1.5, 0, time.Second, 0},
	{auto, 1_000, 1_000_000, 1.5, 0, time.Second, 0},
	{auto, 1_000, 1_000_000, 1.5, 100, time.Second, 0},
	{auto, 1_000, most, 1.5, 0, time.Second, 0},
	{leased, 1_000, 1_000_000, 1.5, 0, time.Second, 0},
}

func run(t *testing.T, scenario Scenario) (r Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { r = simulate(scenario) })
	return r
}

// A simulation of all fleets, for the documentation.
func TestSimulateFleet(t *testing.T) {
	if !*all {
		t.Skip("fleets are simulated by make simulate-fleet")
	}
	report, overloaded := figure.NewReport(os.Stdout), map[int]bool{}
	var results Results
	for _, scenario := range scenarios {
		if scenario.Mode == strict && overloaded[scenario.Gateways] {
			continue
		}
		r := run(t, scenario)
		overloaded[scenario.Gateways] = scenario.Mode == strict && r.broken()
		results = append(results, r)
		row := Results{r}.Table()
		t.Log(row[strings.LastIndex(row[:len(row)-1], "\n")+1:])
		if scenario.Rate == most {
			report.AtLeast("fleet-utilisation", 100*r.Utilisation, 98, " %")
			report.AtMost("fleet-not-decided", 100*r.Failed, 0, " %")
			report.AtMost("fleet-beyond-the-limit", float64(max(r.Over, r.OverCaller)/time.Millisecond), float64(lease.Time/time.Millisecond), " ms")
		}
	}
	var b bytes.Buffer
	if err := errors.Join(results.Write(&b), os.WriteFile(file, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	*render = true
	TestDocs(t)
	if report.ExitCode() != 0 {
		t.Fail()
	}
}

// The table and the plot of the documentation show the results that are in the repository.
func TestDocs(t *testing.T) {
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	results, err := Read(bytes.NewReader(content))
	if err != nil || len(results) < 15 {
		t.Fatalf("%d results: %v", len(results), err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), tableFrom)
	table, after, ends := strings.Cut(rest, tableTo)
	if !found || !ends {
		t.Fatalf("%s has no place for the table", page)
	}
	if *render {
		table = results.Table()
		err := errors.Join(os.WriteFile(page, []byte(before+tableFrom+table+tableTo+after), 0o644), os.WriteFile(picture, []byte(results.Plot()), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	plot, err := os.ReadFile(picture)
	if err != nil || string(plot) != results.Plot() || table != results.Table() {
		t.Errorf("docs/scaling does not show fleet.csv (%v): go test ./fleet -render, in bench, writes it", err)
	}
	for decoder := xml.NewDecoder(bytes.NewReader(plot)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	var again bytes.Buffer
	if err := results.Write(&again); err != nil || again.String() != string(content) {
		t.Errorf("the results are not written as they were read: %v", err)
	}
}

// A fleet with leases uses its limit, keeps the bounds and saves the store most calls,
// while gateways leave, die and join.
func TestSimulate_Small(t *testing.T) {
	for load, measured := range map[float64]time.Duration{0.9: time.Second, 1.5: 6 * time.Second} {
		r := run(t, Scenario{Mode: auto, Gateways: 6, Rate: 3_000, Load: load, Replaced: 1, Measured: measured})
		if r.Utilisation < 0.98 || r.Lowest < 1-float64(lease.MaxPause)/float64(span) || r.Failed > 0 || max(r.Over, r.OverCaller) > lease.Time {
			t.Errorf("demand at %v of the limit: %+v", load, r)
		}
		// The store decides by the limits of the callers, who are not busy.
		if r.Decisions > 1.1*float64(r.Rate) || r.P99 > 2*oneWay+time.Millisecond {
			t.Errorf("demand at %v of the limit asks the store too often: %+v", load, r)
		}
	}
}

// A store that gets more calls than it can decide is overloaded.
func TestSimulate_Overloaded(t *testing.T) {
	r := run(t, Scenario{Mode: strict, Gateways: 2, Rate: 10_000, Load: 0.9, Measured: half, Capacity: 10_000})
	if !r.broken() || r.Utilisation > 0.9 || r.P99 < deadline/2 {
		t.Errorf("%+v", r)
	}
}

// What is admitted beyond a limit is measured.
func TestAccount_Over(t *testing.T) {
	a := newAccount(2_000)
	for range 1_300 { // one caller
		a.admit(7, 0, 0)
	}
	for i := range 1_300 { // many, of which 1,000 are regained
		a.admit(1_000+i, 0, half)
	}
	if all, caller := a.over(); all.Round(time.Millisecond) != 0 || caller.Round(time.Millisecond) != 300*time.Millisecond {
		t.Errorf("beyond the limits: %v and %v", all, caller)
	}
	for i := range 500 {
		a.admit(3_000+i, 0, half)
	}
	if all, _ := a.over(); all.Round(time.Millisecond) != 50*time.Millisecond {
		t.Errorf("beyond the limit: %v", all)
	}
}
