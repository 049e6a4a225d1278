package benchmarks

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

const docs = "../../docs/benchmarks"

var (
	measure = flag.Bool("benchmarks", false, "measure in full and write docs/benchmarks, which takes minutes")
	render  = flag.Bool("render", false, "write the page and the plots of docs/benchmarks again, from its results.csv")
)

func TestMain(m *testing.M) { testenv.Main(m) }

// All contenders are measured, and the results are written.
func TestBenchmarks(t *testing.T) {
	if !*measure {
		t.Skip("the benchmarks are measured by make benchmarks")
	}
	all := run(t, full)
	if t.Failed() {
		return
	}
	if err := all.write(docs); err != nil {
		t.Fatal(err)
	}
}

// A short run measures every contender except the one that takes long to build.
// FluxGate makes no mistake in it, and redis_rate leaks the tokens of callers whose tenant
// is over its limit.
func TestRun_Small(t *testing.T) {
	testenv.SkipShort(t)
	all := run(t, small)
	for _, name := range contenderNames {
		if name == nameRatelimit {
			continue
		}
		for _, w := range []*workload{cold, hot, blocked} {
			if rate, err := all.summary(w, name, measureRate); err != nil || rate <= 0 {
				t.Errorf("%s makes %v decisions per second under the workload %s: %v", name, rate, w.name, err)
			}
		}
	}
	none := func(w *workload, name, measure string) {
		t.Helper()
		if n, err := all.summary(w, name, measure); err != nil || n != 0 {
			t.Errorf("%s under the workload %s: %s is %v, want 0: %v", name, w.name, measure, n, err)
		}
	}
	for _, name := range []string{nameStrict, nameLeases, nameServer} {
		for _, w := range []*workload{cold, hot, blocked} {
			none(w, name, measureFailed)
		}
		none(paired, name, measureLeaked)
	}
	none(saturated, nameStrict, measureOver) // leases have wider bounds
	none(saturated, nameStrict, measureDue)
	if leaked, err := all.summary(paired, nameRedisRate, measureLeaked); leaked != rejections {
		t.Errorf("redis_rate leaks %v tokens, want %d: %v", leaked, rejections, err)
	}
	read, err := parseResults(all.csv())
	if err != nil || !slices.Equal(read, all) {
		t.Errorf("results differ when they are read again: %v", err)
	}
}

// The page and the plots show the results in the file.
func TestRender_Current(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "results.csv"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := parseResults(text)
	if err != nil {
		t.Fatal(err)
	}
	if *render {
		if err := all.write(docs); err != nil {
			t.Fatal(err)
		}
	}
	files, err := all.render()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if is, err := os.ReadFile(filepath.Join(docs, name)); err != nil || string(is) != string(want) {
			t.Errorf("docs/benchmarks/%s does not show results.csv (%v): go test ./benchmarks -render, in bench, writes it", name, err)
		}
		if strings.HasSuffix(name, ".svg") {
			checkXML(t, name, string(want))
			if !strings.Contains(string(files["README.md"]), "]("+name+")") {
				t.Errorf("the page does not show %s", name)
			}
		}
	}
	facts, err := all.facts()
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := figure.Facts(filepath.Join(docs, "..", "facts.json"))
	for name, fact := range facts {
		if recorded[name] != fact {
			t.Errorf("docs/facts.json has %v for %s, results.csv %v (%v)", recorded[name], name, fact, err)
		}
	}
	entries, err := os.ReadDir(docs)
	if err != nil || len(entries) != len(files)+2 {
		t.Errorf("docs/benchmarks has %d files, not results.csv, faults.md and %d others: %v", len(entries), len(files), err)
	}
}

// checkXML checks that browsers show a picture.
func checkXML(t *testing.T, name, text string) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 0.0456: "0.0456", 1.5: "1.5", 12.34: "12.3", 148: "148", 999.6: "1,000", 148_321: "148,000", 1_483_210: "1,480,000"} {
		if got := number(value); got != want {
			t.Errorf("%v is shown as %s, want %s", value, got, want)
		}
	}
}
