package envoyrules_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/rules/envoyrules"
	"github.com/fluxgate/fluxgate/rules/filerules"
)

// Any file is a rule set that package filerules reads again, or an error with a problem.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*.yaml", "testdata/refused/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatalf("no seeds: %v", err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		start := time.Now()
		set, _, err := envoyrules.Parse("a.yaml", data)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("took %s for %d bytes", took, len(data))
		}
		if err != nil {
			var problems *filerules.Error
			var invalid *rules.ValidationError
			if !errors.As(err, &problems) || len(problems.Problems) == 0 || !errors.As(err, &invalid) {
				t.Fatalf("an error without a problem: %v", err)
			}
			return
		}
		text, err := json.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := filerules.Parse("rules.json", text); err != nil {
			t.Fatalf("a converted rule set is not accepted: %v\n%s", err, text)
		}
	})
}
