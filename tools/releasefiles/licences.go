package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|notice|copying)`)

// licences returns the licences and notices of Go, of the modules in the binary
// of each system, and of the packages in the console.
func licences() ([]byte, error) {
	modules, err := linkedModules()
	if err != nil {
		return nil, err
	}
	out := bytes.NewBufferString("fluxgate is distributed with the software below, under these licences.\n")
	for _, m := range modules {
		found := false
		entries, err := os.ReadDir(m.dir)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if !licenceFile.MatchString(entry.Name()) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(m.dir, entry.Name()))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(out, "\n==== %s: %s\n\n%s\n", m.name, entry.Name(), bytes.TrimSpace(text))
			found = true
		}
		if !found {
			return nil, fmt.Errorf("no licence of %s in %q", m.name, m.dir)
		}
	}
	console, err := os.ReadFile("../console/dist/licences.txt")
	fmt.Fprintf(out, "\n==== the web console\n\n%s\n", bytes.TrimSpace(console))
	return out.Bytes(), err
}

// moduleLine is the template of a module that is not ours: its name and its folder.
const moduleLine = "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}|{{.Dir}}{{end}}{{end}}"

type linkedModule struct{ name, dir string }

// linkedModules are the modules in the binaries, Go first.
func linkedModules() ([]linkedModule, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	modules := []linkedModule{{"Go", strings.TrimSpace(string(root))}}
	for _, system := range []string{"linux", "darwin", "windows"} {
		list := exec.Command("go", "list", "-deps", "-f", moduleLine, "./cmd/fluxgate")
		list.Dir = ".."
		list.Stderr = os.Stderr
		list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system)
		out, err := list.Output()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(out)) {
			name, dir, _ := strings.Cut(strings.TrimSpace(line), "|")
			if m := (linkedModule{name, dir}); name != "" && !slices.Contains(modules, m) {
				modules = append(modules, m)
			}
		}
	}
	slices.SortFunc(modules[1:], func(a, b linkedModule) int { return strings.Compare(a.name, b.name) })
	return modules, nil
}
