// Command codesize counts the lines of code of the product by package: Go and Lua
// without blank lines, comments, tests, test support, benchmarks and examples.
//
//	go run ./internal/codesize
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

// leftOut are folders that are not part of the product: other modules, and packages for
// tests, the documentation and this count.
var leftOut = []string{
	"bench", "examples", "internal/apiclient", "internal/chaos", "internal/codesize", "internal/ideal", "internal/limitpictures", "internal/model", "internal/mutate", "internal/testenv",
	"httplimit/limittest", "rules/rulestest", "server/access/accesstest", "store/storetest",
}

func main() {
	lines := map[string]int{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && (slices.Contains(leftOut, filepath.ToSlash(path)) || strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
		case strings.HasSuffix(path, ".go"), strings.HasSuffix(path, ".lua"):
			source, err := os.ReadFile(path) //nolint:gosec // a file of the tree
			lines[filepath.Dir(path)] += count(path, source)
			return err
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	total := 0
	packages := make([]string, 0, len(lines))
	for name, n := range lines {
		packages = append(packages, name)
		total += n
	}
	slices.Sort(packages)
	for _, name := range packages {
		fmt.Printf("%6d  %s\n", lines[name], name)
	}
	fmt.Printf("%6d  in total\n", total)
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
