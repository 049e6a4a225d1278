package figure

import (
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"
)

// A Fact is a measured value that pages of the documentation state. A test of
// the repository compares the pages with docs/facts.json, which [Record] writes.
type Fact struct {
	Value float64 `json:"value"` // of three significant digits
	Unit  string  `json:"unit,omitempty"`
	Date  string  `json:"date"` // when it was measured
}

// NewFact rounds a value as pages show it.
func NewFact(value float64, unit, date string) Fact {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 3, 64), 64) // what was formatted can be parsed
	return Fact{Value: rounded, Unit: strings.TrimSpace(unit), Date: date}
}

// Today is the date of a fact that is measured now.
func Today() string { return time.Now().UTC().Format(time.DateOnly) }

// Facts reads the facts in a file.
func Facts(path string) (all map[string]Fact, err error) {
	text, err := os.ReadFile(path) //nolint:gosec // the path comes from the environment of a developer
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}

// Record writes facts to a file, which keeps its other facts.
func Record(path string, facts map[string]Fact) error {
	all, err := Facts(path)
	if errors.Is(err, fs.ErrNotExist) {
		all, err = map[string]Fact{}, nil
	}
	if err != nil {
		return err
	}
	maps.Copy(all, facts)
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) //nolint:gosec // documentation is for everyone
}
