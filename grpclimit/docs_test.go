package grpclimit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// gRPCSection is what docs/middleware.md says of gRPC.
func gRPCSection(t *testing.T) string {
	t.Helper()
	_, section, found := strings.Cut(readFile(t, "../docs/middleware.md"), "\n## gRPC\n")
	if !found {
		t.Fatal("docs/middleware.md has no section gRPC")
	}
	return section
}

// docs/middleware.md has a row for every option, in the table of gRPC or as the same
// one of HTTP.
func TestDocs_Options(t *testing.T) {
	page, section := readFile(t, "../docs/middleware.md"), gRPCSection(t)
	file, err := parser.ParseFile(token.NewFileSet(), "options.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	options := 0
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || !strings.HasPrefix(f.Name.Name, "With") {
			continue
		}
		options++
		row := "| `" + f.Name.Name + "("
		if !strings.Contains(page, row) || strings.Contains(f.Name.Name, "Methods") && !strings.Contains(section, row) {
			t.Errorf("docs/middleware.md does not say what %s does", f.Name.Name)
		}
	}
	if options < 10 {
		t.Errorf("only %d options were found", options)
	}
}

// Every line of Go code in the section is one of the examples.
func TestDocs_GoCode(t *testing.T) {
	examples := readFile(t, "example_test.go")
	blocks := strings.Split(gRPCSection(t), "```go\n")[1:]
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

// The codes of reasons are those of the section.
func TestDocs_Codes(t *testing.T) {
	section := gRPCSection(t)
	for _, code := range []string{"RESOURCE_EXHAUSTED", "PERMISSION_DENIED", "INVALID_ARGUMENT", "UNAVAILABLE", "INTERNAL", "CANCELLED", "DEADLINE_EXCEEDED"} {
		if !strings.Contains(section, "`"+code+"`") {
			t.Errorf("docs/middleware.md does not say when a call ends with %s", code)
		}
	}
}
