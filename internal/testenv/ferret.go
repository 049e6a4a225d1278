package testenv

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// buildTimeout is for a machine that has never compiled FerretDB and has other
// things to do.
const buildTimeout = 8 * time.Minute

// ferretProgram is the path of the FerretDB server. It is a module of its own,
// so that its many dependencies stay out of the product, and is built when a
// test first asks for it.
var ferretProgram = sync.OnceValues(func() (string, error) {
	_, here, _, ok := runtime.Caller(0)
	source := filepath.Join(filepath.Dir(here), "ferretdb")
	if !ok || !filepath.IsAbs(source) {
		return "", errors.New("the source of the FerretDB server is not known: the tests were built with -trimpath")
	}
	program, err := cachedProgram(source)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := buildProgram(source, program); err != nil {
		return "", fmt.Errorf("build the FerretDB server (FLUXGATE_TEST_MONGO_URI names another one to use): %w", err)
	}
	return program, nil
})

// cachedProgram is where the program of this very source is kept.
func cachedProgram(source string) (string, error) {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	err := filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", entry.Name(), len(content), content)
		return err
	})
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "fluxgate-testenv")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return filepath.Join(dir, fmt.Sprintf("ferretdb-%x", sum.Sum(nil)[:8])), nil
}

// buildProgram builds beside the program's place and moves it there, so that
// test binaries that build at the same time never run half of one.
func buildProgram(source, program string) error {
	dir, err := os.MkdirTemp(filepath.Dir(program), "build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	built := filepath.Join(dir, "ferretdb")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", built, ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return os.Rename(built, program)
}
