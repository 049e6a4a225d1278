// Command mutate measures how good the tests are: it changes one detail of a source file
// at a time (a comparison, a constant, a statement left out) and runs the tests of that
// file. A change that no test notices survives: it shows a gap, or changes nothing that
// can be observed. Those of the second sort are in accepted.txt with the reason; any
// other survivor fails the run.
//
// The changed file is passed to the go command by -overlay, also where it is embedded, so
// the tree stays as it is. A change that does not compile is not counted. A test that
// takes much longer than without the change has noticed it.
//
//	go run ./internal/mutate -mutants 40 internal/bucket/*.go store/redisstore/lua/decide.lua
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed accepted.txt
var acceptedSource string

// targets are the files to change, with the arguments of go test that check them. The
// commands run one after the other until one fails, the fastest first.
var targets = []struct {
	files string // as of filepath.Match
	tests []string
}{
	{"internal/bucket/*.go", []string{
		"./internal/bucket -bucket.steps 10000", "./store/memstore",
		"./store/redisstore -run ^TestScript_AgreesWithGo_NoRace$ -redisstore.steps 10000", "./internal/model -run ^TestHistories_NoRace$",
	}},
	{"store/lease/*.go", []string{"./store/lease"}},
	{"engine_settle*.go", []string{". -short -run Settle|Refund|Receipt|Estimate", ". -short"}},
	{"engine_failure.go", []string{". -short -run Fail|Unavailable|Fallback|Outage", ". -short"}},
	{"engine_carryover.go", []string{". -short -run Carryover", ". -short"}},
	{"engine_charge.go", []string{". -short -run Carryover|Settle", ". -short"}},
	{"engine_wait.go", []string{". -short -run Wait", ". -short"}},
	{"store/redisstore/lua/[dk]*.lua", []string{
		"./store/redisstore -run ^TestScript_AgreesWithGo_NoRace$ -redisstore.steps 10000",
		"./store/redisstore -run Script|^TestConformance_Standalone$",
	}},
}

func main() {
	log.SetFlags(0)
	mutants := flag.Int("mutants", 100, "changes to try in each file, chosen by -seed; 0 tries all")
	seed := flag.Uint64("seed", 1, "which changes are chosen")
	flag.Parse()
	run := &run{seed: *seed, most: *mutants, limits: map[string]time.Duration{}, accepted: parseAccepted(acceptedSource)}
	defer run.close()
	fmt.Println("| file | mutants | killed | by each command | accepted | score |\n|---|---|---|---|---|---|")
	for _, target := range targets {
		files, _ := filepath.Glob(target.files)
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") && selected(file, flag.Args()) {
				run.file(filepath.ToSlash(file), target.tests)
			}
		}
	}
	run.report()
}

// selected reports whether a file is one of those asked for. None means all.
func selected(file string, patterns []string) bool {
	for _, pattern := range patterns {
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
	limits    map[string]time.Duration // of each command
	accepted  map[change]string
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
	find := goMutants
	if strings.HasSuffix(file, ".lua") {
		find = luaMutants
	}
	mutants := find(file, source)
	for c := range r.accepted {
		if c.file == file && !hasChange(mutants, c) {
			r.stale = append(r.stale, fmt.Sprintf("%s: %s\n\t%s", c.file, c.what, c.line))
		}
	}
	name := fnv.New64a()
	_, _ = name.Write([]byte(file))
	rng := rand.New(rand.NewPCG(r.seed, name.Sum64())) //nolint:gosec // a sample
	rng.Shuffle(len(mutants), func(i, j int) { mutants[i], mutants[j] = mutants[j], mutants[i] })
	tried, killed, accepted, by := 0, 0, 0, make([]int, len(tests))
	for _, m := range mutants {
		if r.most > 0 && tried == r.most {
			break
		}
		reason := r.accepted[m.change]
		if reason != "" {
			accepted++
			continue
		}
		switch test := r.try(m, source, tests); test {
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
		fmt.Printf("| %s | %d | %d | %v | %d | %d %% |\n", file, tried, killed, by, accepted, 100*killed/tried)
	}
}

const survived, notCompiled = -1, -2

// try runs the tests on one change, and returns the number of the command that noticed it.
func (r *run) try(m mutant, source []byte, tests []string) int {
	changed := append(append(bytes.Clone(source[:m.start]), m.text...), source[m.end:]...)
	for i, test := range tests {
		limit, ok := r.limits[test]
		if !ok {
			start := time.Now()
			if output, err := r.goTest(test, "", nil, 10*time.Minute); err != nil {
				log.Fatalf("go test %s fails without a change:\n%s", test, output)
			}
			limit = 30*time.Second + 3*time.Since(start)
			r.limits[test] = limit
		}
		output, err := r.goTest(test, m.file, changed, limit)
		switch {
		case err == nil:
		case strings.Contains(output, "[build failed]") || strings.Contains(output, "[setup failed]"):
			return notCompiled
		default:
			return i
		}
	}
	return survived
}

// goTest runs go test with a file replaced.
func (r *run) goTest(test, file string, changed []byte, limit time.Duration) (output string, err error) {
	if r.folder == "" {
		if r.folder, err = os.MkdirTemp("", "mutate"); err != nil {
			log.Fatal(err)
		}
	}
	overlay := map[string]map[string]string{"Replace": {}}
	if file != "" {
		full, _ := filepath.Abs(file)
		overlay["Replace"][full] = r.write(filepath.Base(file), changed)
	}
	encoded, _ := json.Marshal(overlay)
	args := []string{"test", "-vet=off", "-count=1", "-failfast", "-timeout", limit.String(), "-overlay", r.write("overlay.json", encoded)}
	// The tests end by -timeout, which also ends their servers; compiling has no such limit.
	ctx, cancel := context.WithTimeout(context.Background(), limit+5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "go", append(args, strings.Fields(test)...)...) //nolint:gosec // a command of the table
	combined, err := command.CombinedOutput()
	return string(combined), err
}

func (r *run) write(name string, content []byte) string {
	path := filepath.Join(r.folder, name)
	if err := os.WriteFile(path, content, 0o600); err != nil { //nolint:gosec // in a folder of its own
		log.Fatal(err)
	}
	return path
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
