package ship

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// binaryMB is the size of the server as a release has it.
func binaryMB(ctx context.Context, root, folder string) (float64, error) {
	file := filepath.Join(folder, "fluxgate")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, "./cmd/fluxgate")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building the server: %w\n%s", err, text)
	}
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / 1e6, nil
}

// libraryDependencies are the packages outside the standard library and this project that a
// program with httplimit and memstore links.
func libraryDependencies(ctx context.Context, root string) ([]string, error) {
	const module = "github.com/fluxgate/fluxgate"
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", module+"/httplimit", module+"/store/memstore")
	cmd.Dir = root
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	var others []string
	for name := range strings.FieldsSeq(string(text)) {
		if name != module && !strings.HasPrefix(name, module+"/") {
			others = append(others, name)
		}
	}
	return others, nil
}

// clientKB is the size of the scripts of the built TypeScript client, each compressed.
func clientKB(folder string) (float64, error) {
	var size counter
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != ".js" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		z := gzip.NewWriter(&size)
		if _, err := z.Write(text); err != nil {
			return err
		}
		return z.Close()
	})
	if err == nil && size == 0 {
		err = fmt.Errorf("%s has no scripts", folder)
	}
	return float64(size) / 1e3, err
}

// counter counts what is written to it.
type counter int

var _ io.Writer = (*counter)(nil)

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
