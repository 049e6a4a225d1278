package filerules_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/fluxgate/fluxgate/rules/filerules"
)

// Rules in a folder, and the error for an invalid rule.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "rules")
	if err != nil {
		log.Fatal(err)
	}
	file := filepath.Join(dir, "api.yaml")
	if err := os.WriteFile(file, []byte(`
id: api-limits
rules:
  - id: per-caller
    path: /api/**
    limitScope: IP
    bands:
      - {label: per-second, capacity: 100, refill: 1s}
`), 0o600); err != nil {
		log.Fatal(err)
	}

	source, err := filerules.Open(dir, filerules.Config{})
	if err != nil {
		log.Fatal(err)
	}
	version, err := source.Load(context.Background(), "api-limits")
	if err != nil {
		log.Fatal(err)
	}
	for rule := range version.RuleSet.Rules() {
		fmt.Println(rule.ID, rule.Bands[0].Name(), rule.Bands[0].Capacity)
	}
	os.RemoveAll(dir)
	// Output: per-caller per-second 100
}

// Parse the rule sets of one file, for a command that checks files.
func ExampleParse() {
	_, err := filerules.Parse("api.yaml", []byte(`id: api-limits
rules:
  - id: per-caller
    bands:
      - label: per-second
        capacity: -5
        refill: 1s
        burst: 10
`))
	fmt.Println(err)
	// Output:
	// api.yaml:6:19: rules[0].bands[0].capacity: must be at least 1
	// api.yaml:8:9: rules[0].bands[0].burst: is not a known field
}
