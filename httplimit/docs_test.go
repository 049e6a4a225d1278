package httplimit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// The table of docs/middleware.md has a row for every option.
func TestDocs_Options(t *testing.T) {
	page, err := os.ReadFile("../docs/middleware.md")
	if err != nil {
		t.Fatal(err)
	}
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
		if !strings.Contains(string(page), "| `"+f.Name.Name+"(") {
			t.Errorf("docs/middleware.md does not say what %s does", f.Name.Name)
		}
	}
	if options < 10 {
		t.Errorf("only %d options were found", options)
	}
}
