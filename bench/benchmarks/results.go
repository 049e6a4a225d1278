package benchmarks

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/bench/figure"
)

// result is one measured value, or a fact about the machine.
type result struct {
	workload, contender, measure string
	round                        int
	value                        string
}

type results []result

var header = []string{"workload", "contender", "measure", "round", "value"}

// csv returns the results as a file.
func (r results) csv() []byte {
	slices.SortStableFunc(r, func(a, b result) int { return slices.Compare(a.order(), b.order()) })
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(header)
	for _, one := range r {
		_ = w.Write([]string{one.workload, one.contender, one.measure, strconv.Itoa(one.round), one.value})
	}
	w.Flush() // a buffer has room
	return b.Bytes()
}

// order is the place of a result in the file: the machine, then by workload, contender,
// measure and round. Facts about the machine keep their order.
func (r result) order() []int {
	byWorkload := slices.IndexFunc(workloads, func(w *workload) bool { return w.name == r.workload })
	if byWorkload < 0 {
		return nil
	}
	return []int{byWorkload, slices.Index(contenderNames, r.contender), slices.Index(measures, r.measure), r.round}
}

var (
	contenderNames = slices.Concat(libraries, serverNames)
	measures       = []string{measureRate, measureP99, measureCPU, measureFailed, measureOver, measureDue, measureLeaked}
)

// parseResults reads such a file.
func parseResults(text []byte) (all results, err error) {
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(lines) == 0 || !slices.Equal(lines[0], header) {
		return nil, fmt.Errorf("the first line must be %v", header)
	}
	for _, line := range lines[1:] {
		round, err := strconv.Atoi(line[3])
		if err != nil {
			return nil, err
		}
		all = append(all, result{line[0], line[1], line[2], round, line[4]})
	}
	return all, nil
}

// values are those of all rounds.
func (r results) values(w *workload, contender, measure string) (all []float64, err error) {
	for _, one := range r {
		if one.workload != w.name || one.contender != contender || one.measure != measure {
			continue
		}
		value, err := strconv.ParseFloat(one.value, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no %s of %s under the workload %s", measure, contender, w.name)
	}
	return all, nil
}

// summary is the median of all rounds for speed, and the worst of them for correctness.
func (r results) summary(w *workload, contender, measure string) (float64, error) {
	values, err := r.values(w, contender, measure)
	if err != nil {
		return 0, err
	}
	switch measure {
	case measureRate, measureP99, measureCPU:
		return figure.MedianOf(values), nil
	}
	return slices.Max(values), nil
}

// facts are the decisions per second of all contenders.
func (r results) facts() (map[string]figure.Fact, error) {
	facts := map[string]figure.Fact{}
	for _, w := range []*workload{cold, hot, blocked} {
		for _, contender := range contenderNames {
			value, err := r.summary(w, contender, measureRate)
			if err != nil {
				return nil, err
			}
			name := strings.NewReplacer(", ", "-", " ", "-", "/", "-").Replace(strings.ToLower(contender))
			facts["benchmarks-"+w.name+"-"+name] = figure.NewFact(value, "decisions/s", r.date())
		}
	}
	return facts, nil
}

func (r results) date() string {
	return r[slices.IndexFunc(r, func(one result) bool { return one.measure == "date" })].value
}

// render returns the files of the documentation that show the results.
func (r results) render() (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, p := range plots {
		drawn, err := p.draw(r)
		if err != nil {
			return nil, err
		}
		files[name] = []byte(drawn)
	}
	page, err := r.page()
	if err != nil {
		return nil, err
	}
	files["README.md"] = page
	return files, nil
}

// write writes the results and what shows them to a folder, and the facts beside it.
func (r results) write(folder string) error {
	files, err := r.render()
	if err != nil {
		return err
	}
	facts, err := r.facts()
	if err != nil {
		return err
	}
	if err := figure.Record(filepath.Join(folder, "..", "facts.json"), facts); err != nil {
		return err
	}
	files["results.csv"] = r.csv()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil { //nolint:gosec // documentation is for everyone
			return err
		}
	}
	return nil
}
