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

// buildTimeout is enough for a busy machine that compiles FerretDB for the first time.
const buildTimeout = 8 * time.Minute

// ferretProgram returns the path of the FerretDB server. It is a module of its own, so
// that the product does not depend on it, and is built when a test first needs it.
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

// cachedProgram returns the path of the program for this source.
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

// copyProgram copies a program, if there is one.
func copyProgram(from, to string) error {
	content, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o700)
}

// buildProgram builds to a temporary name and renames it, so that concurrent test
// binaries never run an incomplete program. It begins with a copy of the program of an
// earlier run, because Go does not link again what is current.
func buildProgram(source, program string) error {
	dir, err := os.MkdirTemp(filepath.Dir(program), "build-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	built := filepath.Join(dir, filepath.Base(program))
	if err := copyProgram(program, built); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", built, ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return os.Rename(built, program)
}
