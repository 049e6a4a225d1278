package client_test

import (
	"strings"
	"testing"
)

// Every line of Go code in docs/clients.md is one of the examples.
func TestDocs_GoCode(t *testing.T) {
	examples := readFile(t, "example_test.go")
	blocks := strings.Split(readFile(t, "../docs/clients.md"), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("no code")
	}
	for _, block := range blocks {
		block, _, _ := strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			if !strings.Contains(examples, strings.TrimSpace(line)) {
				t.Errorf("no example has %s", line)
			}
		}
	}
}
