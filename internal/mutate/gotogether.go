package main

import (
	"bytes"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// packageOf is the package of a Go file.
func packageOf(source []byte) (string, bool) {
	tree, err := parser.ParseFile(token.NewFileSet(), "", source, parser.PackageClauseOnly)
	if err != nil {
		return "", false
	}
	return tree.Name.Name, true
}

// goWithAll is a Go file with all changes that are within functions: each is made in a copy
// of its function, which the function calls if mutantNumber is the position of the change in
// the list, from 1 on. It returns which changes it has.
func goWithAll(file string, source []byte, mutants []mutant) (changed []byte, has []bool) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, source, parser.SkipObjectResolution)
	if err != nil {
		log.Fatal(err)
	}
	has = make([]bool, len(mutants))
	var copies bytes.Buffer
	written := 0
	for _, declaration := range tree.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		at := func(p token.Pos) int { return files.Position(p).Offset }
		call, ok := callOf(f)
		if !ok {
			continue
		}
		var cases strings.Builder
		for i, m := range mutants {
			if m.start <= at(f.Body.Lbrace) || m.end > at(f.Body.Rbrace) {
				continue
			}
			has[i] = true
			name := f.Name.Name + "Mutant" + strconv.Itoa(i+1)
			cases.WriteString("case " + strconv.Itoa(i+1) + ": " + strings.Replace(call, f.Name.Name+"(", name+"(", 1) + "; ")
			copies.WriteString("\n" + string(source[at(f.Pos()):at(f.Name.Pos())]) + name + string(source[at(f.Name.End()):m.start]) + m.text + string(source[m.end:at(f.End())]) + "\n")
		}
		if cases.Len() > 0 {
			changed = append(changed, source[written:at(f.Body.Lbrace)+1]...)
			changed = append(changed, " switch mutantNumber { "+cases.String()+"}\n"...)
			written = at(f.Body.Lbrace) + 1
		}
	}
	return slices.Concat(changed, source[written:], copies.Bytes()), has
}

// callOf is a call of a function with its own parameters, as its only statement. A function
// with a parameter that has no name, or with type parameters, cannot be called so.
func callOf(f *ast.FuncDecl) (string, bool) {
	if f.Name.Name == "init" || f.Name.Name == "main" || f.Type.TypeParams != nil {
		return "", false
	}
	var call strings.Builder
	if f.Type.Results != nil {
		call.WriteString("return ")
	}
	if f.Recv != nil {
		if len(f.Recv.List[0].Names) == 0 || f.Recv.List[0].Names[0].Name == "_" {
			return "", false
		}
		call.WriteString(f.Recv.List[0].Names[0].Name + ".")
	}
	call.WriteString(f.Name.Name + "(")
	for _, field := range f.Type.Params.List {
		if len(field.Names) == 0 {
			return "", false
		}
		for _, name := range field.Names {
			if name.Name == "_" {
				return "", false
			}
			call.WriteString(name.Name)
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				call.WriteString("...")
			}
			call.WriteString(", ")
		}
	}
	call.WriteString(")")
	if f.Type.Results == nil {
		call.WriteString("; return")
	}
	return call.String(), true
}

// checker finds out which changes of a package compile.
type checker struct {
	files    *token.FileSet
	others   []*ast.File
	importer types.Importer
}

// newChecker is for the changes of one file of a package.
func newChecker(file string) *checker {
	c := &checker{files: token.NewFileSet()}
	folder := "./" + filepath.ToSlash(filepath.Dir(file))
	exports := map[string]string{}
	command := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", folder) //nolint:gosec // a folder of the table
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(output)) {
		path, export, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = export
	}
	c.importer = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	all, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*.go"))
	for _, other := range all {
		if filepath.Clean(other) == filepath.Clean(file) || strings.HasSuffix(other, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(c.files, other, nil, parser.SkipObjectResolution)
		if err != nil {
			log.Fatal(err)
		}
		c.others = append(c.others, tree)
	}
	return c
}

// compiles reports whether a file does.
func (c *checker) compiles(file string, source []byte) bool {
	tree, err := parser.ParseFile(c.files, file, source, parser.SkipObjectResolution)
	if err != nil {
		return false
	}
	config := types.Config{Importer: c.importer}
	_, err = config.Check(tree.Name.Name, c.files, append(slices.Clone(c.others), tree), nil)
	return err == nil
}
