// Command codesize counts the lines of code of the product by package: Go and Lua
// without blank lines, comments, tests, test support, benchmarks and examples. The programs
// in tools are not part of the product, and have a line of their own.
//
//	go run -C tools ./codesize
package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tools is the folder of programs for developers and releases.
const tools = "tools"

// leftOut are folders that are not counted: other modules, and packages for tests.
var leftOut = []string{
	"bench", "clients", "examples", "internal/apiclient", "internal/chaos", "internal/ideal", "internal/model",
	"internal/mutate", "internal/testenv", "httplimit/limittest", "rules/rulestest",
	"server/access/accesstest", "store/storetest",
}

func main() {
	lines, err := countTree("..")
	if err != nil {
		log.Fatal(err)
	}
	total, beside := 0, 0
	packages := make([]string, 0, len(lines))
	for name, n := range lines {
		if strings.HasPrefix(name, tools+"/") {
			beside += n
			continue
		}
		packages = append(packages, name)
		total += n
	}
	slices.Sort(packages)
	for _, name := range packages {
		fmt.Printf("%6d  %s\n", lines[name], name)
	}
	fmt.Printf("%6d  in total, and %d in %s\n", total, beside, tools)
}

// countTree counts the lines of the packages below a folder.
func countTree(root string) (map[string]int, error) {
	lines := map[string]int{}
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		hidden := path != "." && strings.HasPrefix(entry.Name(), ".")
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (hidden || entry.Name() == "node_modules" || slices.Contains(leftOut, path)):
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"):
		case strings.HasSuffix(path, ".go"), strings.HasSuffix(path, ".lua"):
			source, err := fs.ReadFile(tree, path)
			lines[filepath.Dir(path)] += count(path, source)
			return err
		}
		return nil
	})
	return lines, err
}

// count returns how many lines of a source have code.
func count(path string, source []byte) int {
	if strings.HasSuffix(path, ".lua") {
		n := 0
		for line := range strings.Lines(string(source)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
				n++
			}
		}
		return n
	}
	files := token.NewFileSet()
	file := files.AddFile(path, -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	n, last := 0, 0
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return n
		}
		if kind == token.SEMICOLON && text == "\n" {
			continue // inserted by the scanner
		}
		first := file.Line(at)
		end := first + strings.Count(text, "\n") // a raw string has several lines
		n += end - max(first-1, last)
		last = end
	}
}
