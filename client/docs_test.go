package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
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

// The table in docs/clients.md has the groups of conformance cases and how many cases each client
// runs. UPDATE_GOLDEN=1 writes it.
func TestDocs_ConformanceTable(t *testing.T) {
	const page = "../docs/clients.md"
	text := readFile(t, page)
	before, after, found := strings.Cut(text, "\n| group |")
	_, after, ended := strings.Cut(after, "\n\n")
	if !found || !ended {
		t.Fatal("the page has no table")
	}
	want := before + "\n" + conformanceTable(t) + "\n" + after
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil { //nolint:gosec // documentation is for everyone
			t.Fatal(err)
		}
	} else if text != want {
		t.Errorf("the table is not that of cases.json: run with UPDATE_GOLDEN=1. It must be\n%s", conformanceTable(t))
	}
}

func conformanceTable(t *testing.T) string {
	t.Helper()
	var file conformanceFile
	if err := json.Unmarshal([]byte(readFile(t, folder+"cases.json")), &file); err != nil {
		t.Fatal(err)
	}
	inGroup := map[string][]string{}
	for i := range file.Cases {
		c := &file.Cases[i]
		if slices.Contains(inGroup[c.Group], c.Name) {
			t.Errorf("two cases have the name %s/%s", c.Group, c.Name)
		}
		inGroup[c.Group] = append(inGroup[c.Group], c.Name)
	}
	table := "| group | cases | what they cover | Go | TypeScript | Python | Java |\n|---|---|---|---|---|---|---|\n"
	for _, g := range file.Groups {
		table += fmt.Sprintf("| %s | %d | %s |", g.Name, len(inGroup[g.Name]), g.Covers)
		for _, client := range []string{"client", "clients/typescript", "clients/python", "clients/java"} {
			table += strings.TrimRight(" "+casesRun(t, client, g.Name, inGroup[g.Name]), " ") + " |"
		}
		table += "\n"
		delete(inGroup, g.Name)
	}
	if len(inGroup) > 0 {
		t.Errorf("cases in unknown groups: %v", inGroup)
	}
	return table
}

// casesRun is how many cases of a group a client runs, in words. A client without a folder runs none.
func casesRun(t *testing.T, client, group string, names []string) string {
	t.Helper()
	here := "../" + client
	if _, err := os.Stat(here); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	text, err := os.ReadFile(here + "/not-run.json")
	reasons := map[string]string{} // by the group and the name of a case
	if err == nil {
		err = json.Unmarshal(text, &reasons)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	missing := 0
	for name, reason := range reasons {
		of, name, _ := strings.Cut(name, "/")
		if of != group {
			continue
		}
		if missing++; !slices.Contains(names, name) || reason == "" {
			t.Errorf("%s/not-run.json: there is no case %s/%s, or no reason", here, group, name)
		}
	}
	if missing == 0 {
		return "all"
	}
	return fmt.Sprintf("%d of %d", len(names)-missing, len(names))
}
