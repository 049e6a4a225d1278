package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// build has the tests of a file compiled with its changes, of which a run selects one:
// compiling and linking them for every change would take longer than most of the tests.
type build struct {
	folder   string
	overlay  map[string][]byte // what replaces or adds files, by path
	embedded []byte            // of a file that is embedded, its bytes in the binaries
	binaries map[string]string // by package
}

// newBuild is of a Go file with the changes in place that goWithAll or goWithOne made.
func newBuild(folder, file string, changed []byte) *build {
	overlay := map[string][]byte{file: changed}
	if name, ok := packageOf(changed); ok {
		overlay[filepath.Join(filepath.Dir(file), "mutant_number.go")] = []byte("package " + name + selector)
	}
	return &build{folder: folder, overlay: overlay, binaries: map[string]string{}}
}

// selector is which change a run selects. The changed functions read it.
const selector = `

import (
	"os"
	"strconv"
)

var mutantNumber, _ = strconv.Atoi(os.Getenv("MUTANT"))
`

// padding is room behind an embedded file for a longer one.
const padding = 64

// newEmbedded is of a file that is embedded. Its changes are made in the binaries.
func newEmbedded(folder, file string, source []byte) *build {
	padded := append(bytes.Clone(source), bytes.Repeat([]byte("\n"), padding)...)
	return &build{folder: folder, overlay: map[string][]byte{file: padded}, embedded: padded, binaries: map[string]string{}}
}

// binary is the tests of a package, compiled when they are first needed.
func (b *build) binary(pkg string) (string, error) {
	if path := b.binaries[pkg]; path != "" {
		return path, nil
	}
	replace, count := map[string]string{}, 0
	for file, content := range b.overlay {
		count++
		full, _ := filepath.Abs(file)
		replace[full] = b.write(strconv.Itoa(count)+filepath.Ext(file), content)
	}
	encoded, _ := json.Marshal(map[string]any{"Replace": replace})
	path := filepath.Join(b.folder, strings.Trim(strings.ReplaceAll(pkg, "/", "_"), "._")+".test")
	command := exec.Command("go", "test", "-c", "-vet=off", "-overlay", b.write("overlay.json", encoded), "-o", path, pkg) //nolint:gosec // a package of the table
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, output)
	}
	b.binaries[pkg] = path
	return path, nil
}

// use makes a change of an embedded file, or undoes it, in the binary of a package.
func (b *build) use(path string, content []byte) {
	if b.embedded == nil {
		return
	}
	content = append(bytes.Clone(content), bytes.Repeat([]byte("\n"), len(b.embedded)-len(content))...)
	binary, err := os.ReadFile(path) //nolint:gosec // our own file
	if err != nil {
		log.Fatal(err)
	}
	at := bytes.Index(binary, b.embedded)
	if at < 0 || bytes.Contains(binary[at+1:], b.embedded) {
		log.Fatalf("%s does not have the embedded file once", path)
	}
	copy(binary[at:], content)
	b.write(filepath.Base(path), binary)
	b.embedded = content
}

// test runs a command of the table on the change with a number.
func (b *build) test(command string, number int, content []byte, limit time.Duration) (output string, err error) {
	fields := strings.Fields(command)
	path, err := b.binary(fields[0])
	if err != nil {
		return "", errNotCompiled{err}
	}
	b.use(path, content)
	args := slices.Concat([]string{"-test.failfast", "-test.timeout", limit.String()}, fields[1:])
	// The tests end by -timeout, which also ends their servers.
	ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
	defer cancel()
	tests := exec.CommandContext(ctx, path, args...) //nolint:gosec // our own file
	tests.Dir = fields[0]
	tests.Env = append(os.Environ(), "MUTANT="+strconv.Itoa(number), "TMPDIR="+b.folder)
	combined, err := tests.CombinedOutput()
	return string(combined), err
}

type errNotCompiled struct{ error }

func (b *build) write(name string, content []byte) string {
	path := filepath.Join(b.folder, name)
	if err := os.WriteFile(path, content, 0o700); err != nil { //nolint:gosec // in a folder of its own, and some are executed
		log.Fatal(err)
	}
	return path
}
