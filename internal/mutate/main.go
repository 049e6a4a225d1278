// Command mutate measures how good the tests are: it changes one detail of a source file
// at a time (a comparison, a constant, a statement left out) and runs the tests of that
// file. A change that no test notices survives: it shows a gap, or changes nothing that
// can be observed. Those of the second sort are in accepted.txt with the reason; any
// other survivor fails the run.
//
// All changes of a file are compiled into one test binary, from which a run selects one: see
// build. The changed file is passed to the go command by -overlay, so the tree stays as it
// is. A change that does not compile is not counted. A test that takes much longer than
// without the change has noticed it.
//
//	go run ./internal/mutate -mutants 40 internal/bucket/*.go store/redisstore/lua/decide/*.lua
//	go run ./internal/mutate internal/bucket/level.go:57
package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed accepted.txt
var acceptedSource string

// targets are the files to change, with the packages whose tests check them, and their flags. The
// commands run one after the other until one fails, the fastest first.
var targets = []struct {
	files string // as of filepath.Match
	tests []string
}{
	{"internal/bucket/*.go", []string{
		"./internal/bucket -test.short -bucket.steps 10000", "./internal/bucket -bucket.steps 10000", "./store/memstore",
		"./store/redisstore -test.run ^TestScript_AgreesWithGo_NoRace$ -redisstore.steps 10000", "./internal/model -test.run ^TestHistories_NoRace$",
	}},
	{"store/lease/*.go", []string{"./store/lease"}},
	{"engine_settle*.go", []string{". -test.short -test.run Settle|Refund|Receipt|Estimate|Extend", ". -test.short"}},
	{"store/failover/*.go", []string{
		"./store/failover -test.short", ". -test.short -test.skip Honest -test.run Fail|Unavailable|Fallback|Outage|Carryover|Settle", ". -test.short",
	}},
	{"engine_wait.go", []string{". -test.short -test.run Wait", ". -test.short"}},
	{"store/redisstore/lua/constants.lua", scriptTests},
	{"store/redisstore/lua/*/*.lua", scriptTests},
}

// scriptTests are those of the decision script.
var scriptTests = []string{
	"./store/redisstore -test.run ^TestScript_(AgreesWithGo|Slots)_NoRace$ -redisstore.steps 2000",
	"./store/redisstore -test.run ^TestScript_(AgreesWithGo_NoRace|Slots_NoRace|SlotsKeepValue|KeptRecords|ChargedRecords|EndedSlots|LabelBehindSlots|RenewWithoutSlots|Expiry|Other.*)$ -redisstore.steps 20000",
	"./store/redisstore -test.run Script|^TestConformance_Standalone$",
}

func main() {
	log.SetFlags(0)
	mutants := flag.Int("mutants", 100, "changes to try in each file, chosen by -seed; 0 tries all")
	seed := flag.Uint64("seed", 1, "which changes are chosen")
	commands := flag.Int("commands", 0, "commands to run on each change, the fastest first; 0 runs all")
	flag.Parse()
	run := &run{
		seed: *seed, most: *mutants, lines: flag.Args(),
		limits: map[string]time.Duration{}, accepted: parseAccepted(acceptedSource), listed: map[string]int{},
	}
	run.folder = run.newFolder()
	defer run.close()
	fmt.Println("| file | mutants | killed | by each command | accepted | score |\n|---|---|---|---|---|---|")
	for _, target := range targets {
		files, _ := filepath.Glob(target.files)
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") && selected(file, flag.Args()) {
				tests := target.tests
				if *commands > 0 {
					tests = tests[:min(*commands, len(tests))]
				}
				run.file(filepath.ToSlash(file), tests)
			}
		}
	}
	run.report()
}

// selected reports whether a file is one of those asked for, perhaps with the number of a
// line. None means all.
func selected(file string, patterns []string) bool {
	for _, pattern := range patterns {
		pattern, _, _ = strings.Cut(pattern, ":")
		if ok, _ := filepath.Match(filepath.Clean(pattern), file); ok {
			return true
		}
	}
	return len(patterns) == 0
}

// run is one run over all files.
type run struct {
	seed      uint64
	most      int
	lines     []string                 // what is asked for: see selected
	limits    map[string]time.Duration // of each command
	accepted  map[change]string
	listed    map[string]int // changes of each file that are accepted
	survivors []string
	stale     []string
	folder    string
}

// file tries the changes of one file, and prints its row of the table.
func (r *run) file(file string, tests []string) {
	source, err := os.ReadFile(file) //nolint:gosec // a file of the tree
	if err != nil {
		log.Fatal(err)
	}
	var mutants []mutant
	if strings.HasSuffix(file, ".lua") {
		mutants = r.choose(luaMutants(file, source), func(mutant) bool { return true })
	} else {
		check := newChecker(file)
		mutants = r.choose(goMutants(file, source), func(m mutant) bool { return check.compiles(file, m.apply(source)) })
	}
	if len(mutants) == 0 {
		return
	}
	tried, killed, by := 0, 0, make([]int, len(tests))
	for i, b := range r.builds(file, source, mutants) {
		m := mutants[i]
		switch test := r.try(b, i+1, m.apply(source), source, tests); test {
		case notCompiled:
		case survived:
			tried++
			r.survivors = append(r.survivors, fmt.Sprintf("%s:%d: %s\n\t%s", m.file, m.number, m.what, m.line))
			fmt.Fprintf(os.Stderr, "%d of %d killed; survived: %s\n", killed, tried, r.survivors[len(r.survivors)-1]) // a run takes long
		default:
			tried++
			killed++
			by[test]++
		}
	}
	if tried > 0 {
		fmt.Printf("| %s | %d | %d | %v | %d | %d %% |\n", file, tried, killed, by, r.listed[file], 100*killed/tried)
	}
}

// choose draws the changes of a file to try.
func (r *run) choose(mutants []mutant, compiles func(mutant) bool) (chosen []mutant) {
	if len(mutants) == 0 {
		return nil
	}
	file := mutants[0].file
	for c := range r.accepted {
		if c.file == file && !hasChange(mutants, c) {
			r.stale = append(r.stale, fmt.Sprintf("%s: %s\n\t%s", c.file, c.what, c.line))
		}
	}
	name := fnv.New64a()
	_, _ = name.Write([]byte(file))
	rng := rand.New(rand.NewPCG(r.seed, name.Sum64())) //nolint:gosec // a sample
	rng.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
	for _, m := range mutants {
		switch {
		case r.most > 0 && len(chosen) == r.most:
			return chosen
		case !r.asksFor(m) || !compiles(m):
		case r.accepted[m.change] != "":
			r.listed[file]++
		default:
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// builds are the builds to try each change with. A change outside functions has one of its
// own.
func (r *run) builds(file string, source []byte, mutants []mutant) []*build {
	all := make([]*build, len(mutants))
	if strings.HasSuffix(file, ".lua") {
		b := newEmbedded(r.newFolder(), file, source)
		for i := range mutants {
			all[i] = b
		}
		return all
	}
	changed, has := goWithAll(file, source, mutants)
	together := newBuild(r.newFolder(), file, changed)
	for i, m := range mutants {
		if all[i] = together; !has[i] {
			all[i] = newBuild(r.newFolder(), file, m.apply(source))
		}
	}
	return all
}

// asksFor reports whether the line of a change is asked for, if any line of its file is.
func (r *run) asksFor(m mutant) bool {
	all := true
	for _, asked := range r.lines {
		if file, line, ok := strings.Cut(asked, ":"); ok && filepath.Clean(file) == m.file {
			if all = false; line == strconv.Itoa(m.number) {
				return true
			}
		}
	}
	return all
}

const survived, notCompiled = -1, -2

// try runs the tests on one change, and returns the number of the command that noticed it.
func (r *run) try(b *build, number int, changed, source []byte, tests []string) int {
	for i, test := range tests {
		limit, ok := r.limits[test]
		if !ok {
			start := time.Now()
			if _, err := b.binary(strings.Fields(test)[0]); err == nil {
				start = time.Now()
			}
			if output, err := b.test(test, 0, source, 10*time.Minute); err != nil {
				log.Fatalf("go test %s fails without a change: %v\n%s", test, err, output)
			}
			limit = 30*time.Second + 3*time.Since(start)
			r.limits[test] = limit
		}
		_, err := b.test(test, number, changed, limit)
		switch {
		case err == nil:
		case errors.As(err, new(errNotCompiled)):
			return notCompiled
		default:
			return i
		}
	}
	return survived
}

func (r *run) newFolder() string {
	folder, err := os.MkdirTemp(r.folder, "mutate")
	if err != nil {
		log.Fatal(err)
	}
	return folder
}

func (r *run) close() { _ = os.RemoveAll(r.folder) }

// report prints the survivors, and ends with an error if there are any.
func (r *run) report() {
	for _, s := range r.survivors {
		fmt.Println("\nsurvived: " + s)
	}
	for _, s := range r.stale {
		fmt.Println("\nin accepted.txt, but no such change exists: " + s)
	}
	if len(r.survivors)+len(r.stale) > 0 {
		r.close()
		os.Exit(1)
	}
}
