package main

import (
	"debug/buildinfo"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// The bill names Go, the modules in the binary and the packages of the console, each once.
func TestDescribe_Binary(t *testing.T) {
	testenv.SkipShort(t)
	info, err := buildinfo.ReadFile(testenv.Fluxgate(t))
	if err != nil {
		t.Fatal(err)
	}
	packages, err := os.ReadFile("../../console/dist/licences.txt")
	if err != nil {
		t.Fatal(err)
	}
	d := describe(info, "1.2.3", string(packages))
	if got := d.Metadata.Component.PURL; got != "pkg:golang/github.com/fluxgate/fluxgate@v1.2.3" {
		t.Error(got)
	}
	seen := map[string]bool{}
	for _, c := range d.Components {
		if c.Version == "" || seen[c.Ref] {
			t.Errorf("%+v has no version or is there twice", c)
		}
		seen[c.Ref] = true
	}
	for _, prefix := range []string{"pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go"), "pkg:golang/google.golang.org/grpc@v", "pkg:npm/react@", "pkg:npm/%40mantine/core@", "pkg:npm/tslib@"} {
		if !slices.ContainsFunc(d.Components, func(c component) bool { return strings.HasPrefix(c.PURL, prefix) }) {
			t.Errorf("no %s", prefix)
		}
	}
	npm := strings.Count(string(packages), "\n-----") // a line before each package
	if got := len(d.Components) - 1 - len(info.Deps); got != npm {
		t.Errorf("%d packages of the console, want %d", got, npm)
	}
}
