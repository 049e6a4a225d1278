package internal

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// fact is a measured value in docs/facts.json.
type fact struct {
	Value float64
	Unit  string
	Date  string
}

var (
	// stated is a measured number on a page, its unit, and the marker that names its fact.
	stated = regexp.MustCompile(`([\d.,]*\d)( ?(?:bytes|B|[KMG]B|µs|ms|s|×|%))?(<!--fact:([^>]*)-->)`)
	marker = regexp.MustCompile(`<!--\s*fact`)
	// measured are numbers that need a marker: what a bucket takes, and multiples of the speed of another program.
	measured = regexp.MustCompile(`(?i)\bbuckets? of (?:one|two|three) limits?\b[^.]*\d ?(?:B|bytes)\b|\bbucket takes\b[^.]*\d ?(?:B|bytes)\b|\bmillion callers\b[^.]*\d ?[KMG]B\b|\d× the (?:requests|decisions)`)
)

// Pages state the measured numbers of docs/facts.json, each with its marker:
// 193 B<!--fact:redis-bytes-per-bucket-1-band-->. UPDATE_GOLDEN=1 corrects them.
func TestFacts_Pages_NoRace(t *testing.T) {
	facts := readFacts(t)
	for _, path := range pages(t) {
		text := readPage(t, path)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			text = correct(text, facts)
			if err := os.WriteFile("../"+path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, problem := range wrongFacts(text, facts) {
			t.Errorf("%s:%s", path, problem)
		}
	}
}

// The check finds what it is for.
func TestFacts_Check_NoRace(t *testing.T) {
	facts := map[string]fact{"bucket": {Value: 193, Unit: "B"}, "speed": {Value: 85_000, Unit: "decisions/s"}, "ratio": {Value: 1.5, Unit: "×"}}
	for text, problems := range map[string]int{
		"A bucket of one limit takes 193 B<!--fact:bucket--> in Redis.":       0,
		"193 bytes<!--fact:bucket--> and 85,000<!--fact:speed--> decisions":   0,
		"1.50×<!--fact:ratio--> the requests, in 100 ms and 3 B of something": 0,
		"A bucket of one limit takes 194 B<!--fact:bucket--> in Redis.":       1, // another number
		"1.50×<!--fact:ratio--> and 1.6×<!--fact:ratio-->":                    1,
		"193 KB<!--fact:bucket-->":                                            1, // another unit
		"193 B<!--fact:buckets-->":                                            1, // an unknown fact
		"<!-- fact: bucket --> 193 B":                                         1, // a marker of another form
		"about<!--fact:bucket-->":                                             1, // a marker without a number
		"It takes 193 B.":                                                     1, // a fact without its marker
		"at 85,000 decisions":                                                 1,
		"A bucket of one limit takes about 200 bytes.":                        1, // a number that needs a marker
		"serves 1.7× the requests of the other":                               1,
	} {
		if found := wrongFacts(text, facts); len(found) != problems {
			t.Errorf("%d problems in %q, want %d: %q", len(found), text, problems, found)
		}
	}
	if got, want := correct("190 B<!--fact:bucket-->, 1<!--fact:speed-->, 2×<!--fact:ratio-->", facts), "193 B<!--fact:bucket-->, 85,000<!--fact:speed-->, 1.5×<!--fact:ratio-->"; got != want {
		t.Errorf("corrected to %q, want %q", got, want)
	}
}

// wrongFacts returns what is wrong with the numbers of a page, each with its line.
func wrongFacts(text string, facts map[string]fact) (problems []string) {
	unmarked := map[string]*regexp.Regexp{}
	for name, fact := range facts {
		if of := numbers(fact); of != nil {
			unmarked[name] = of
		}
	}
	for i, line := range strings.Split(text, "\n") {
		report := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("%d: ", i+1)+fmt.Sprintf(format, args...))
		}
		found := stated.FindAllStringSubmatch(line, -1)
		if len(marker.FindAllString(line, -1)) != len(found) {
			report("a marker does not follow a number: 193 B<!--fact:name-->")
			continue
		}
		for _, m := range found {
			number, unit := strings.ReplaceAll(m[1], ",", ""), strings.Replace(strings.TrimSpace(m[2]), "bytes", "B", 1)
			fact, known := facts[m[4]]
			value, err := strconv.ParseFloat(number, 64)
			switch {
			case !known:
				report("docs/facts.json has no fact %q", m[4])
			case err != nil || value != fact.Value || unit != "" && unit != fact.Unit:
				report("%s%s is stated, but %s is %v %s (%s): UPDATE_GOLDEN=1 go test ./internal corrects it", m[1], m[2], m[4], fact.Value, fact.Unit, fact.Date)
			}
		}
		rest := stated.ReplaceAllString(line, "")
		if !strings.ContainsAny(rest, "0123456789") {
			continue
		}
		if claim := measured.FindString(rest); claim != "" {
			report("%q has a measured number without the marker of its fact", claim)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(unmarked)) {
			if number := unmarked[name].FindString(rest); number != "" {
				report("%q is the fact %s, and has no marker", number, name)
				break
			}
		}
	}
	return problems
}

// numbers finds a fact by its number and unit. It is nil if other things have such numbers too.
func numbers(f fact) *regexp.Regexp {
	units := map[string]string{"B": " ?(?:B|bytes)", "GB": " ?GB", "decisions/s": " decisions"}
	if units[f.Unit] == "" {
		return nil
	}
	return regexp.MustCompile(`(?:^|[^\d.,])` + regexp.QuoteMeta(shown(f)) + units[f.Unit] + `\b`)
}

// correct returns a page with the numbers of facts.
func correct(text string, facts map[string]fact) string {
	return stated.ReplaceAllStringFunc(text, func(one string) string {
		m := stated.FindStringSubmatch(one)
		f, known := facts[m[4]]
		if !known {
			return one
		}
		return shown(f) + m[2] + m[3]
	})
}

// shown is the number of a fact as pages state it.
func shown(f fact) string {
	whole, rest, _ := strings.Cut(strconv.FormatFloat(f.Value, 'f', -1, 64), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	return whole
}

func readFacts(t *testing.T) (facts map[string]fact) {
	t.Helper()
	if err := json.Unmarshal([]byte(readPage(t, "docs/facts.json")), &facts); err != nil {
		t.Fatal(err)
	}
	return facts
}

// pages are those of the documentation, without the measured pages, which are generated.
func pages(t *testing.T) (paths []string) {
	t.Helper()
	root := os.DirFS("..")
	err := fs.WalkDir(root, "docs", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "node_modules" {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".md") && path != "docs/benchmarks/README.md" && path != "docs/benchmarks/faults.md" && path != "docs/scaling/fleets.md" {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) < 40 {
		t.Fatalf("%d pages: %v", len(paths), err)
	}
	return append(paths, "README.md", "README.ko.md", "CONTRIBUTING.md")
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
