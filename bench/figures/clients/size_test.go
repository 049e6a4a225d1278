package clients

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// commentSyntax is how a language marks comments that fill lines.
type commentSyntax struct {
	line   string
	blocks map[string]string // the end of a comment by its start
}

var (
	javaSyntax = commentSyntax{line: "//", blocks: map[string]string{"/*": "*/"}}
	// A string that is a statement of its own is documentation.
	pythonSyntax = commentSyntax{line: "#", blocks: map[string]string{`"""`: `"""`, `r"""`: `"""`}}
)

// lines counts the lines of a text that are neither blank nor comments.
func (s commentSyntax) lines(text string) (count int) {
	end := "" // of the comment that the line is in
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		for start, closing := range s.blocks {
			if rest, found := strings.CutPrefix(line, start); end == "" && found {
				end, line = closing, rest
			}
		}
		if end != "" {
			_, after, closed := strings.Cut(line, end)
			if !closed {
				continue
			}
			end, line = "", strings.TrimSpace(after)
		}
		if line != "" && !strings.HasPrefix(line, s.line) {
			count++
		}
	}
	return count
}

func TestLines(t *testing.T) {
	for _, c := range []struct {
		syntax commentSyntax
		text   string
		want   int
	}{
		{javaSyntax, "package a; // code\n\n// comment\n/** one\n * two\n */\nint x = 1; /* code */\n  /* a */ int y;\n/* b */\n}\n", 4},
		{pythonSyntax, "\"\"\"Two\n\nlines.\"\"\"\n# comment\nimport a  # code\n\ndef f():\n    \"\"\"One line.\"\"\"\n    return \"\"\"a\nb\"\"\"\n", 4},
	} {
		if got := c.syntax.lines(c.text); got != c.want {
			t.Errorf("%d lines, want %d:\n%s", got, c.want, c.text)
		}
	}
}

// codeLines counts the lines of code in the files of a folder.
func codeLines(folder, suffix string, syntax commentSyntax) (float64, error) {
	total := 0
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != suffix {
			return err
		}
		text, err := os.ReadFile(name)
		total += syntax.lines(string(text))
		return err
	})
	if err == nil && total == 0 {
		err = fmt.Errorf("%s has no %s files", folder, suffix)
	}
	return float64(total), err
}

// fileKB is the size of the only file that matches a pattern.
func fileKB(pattern, build string) (float64, error) {
	file, err := onlyFile(pattern, build)
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / 1e3, nil
}

func onlyFile(pattern, hint string) (string, error) {
	files, err := filepath.Glob(pattern)
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("%d files match %s, want 1: %s", len(files), pattern, hint)
	}
	if err != nil {
		return "", err
	}
	return filepath.Abs(files[0])
}

// The package with the collector for Prometheus, and what a program calls of it.
const (
	metricsPackage = "github.com/fluxgate/fluxgate/promlimit"
	metricsFunc    = "New"
)

// metricsMB is what the collector adds to a program that serves metrics already.
func metricsMB(ctx context.Context, folder string) (float64, error) {
	const program = `package main

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	%s
)

func main() {
	fmt.Println(%s)
	fmt.Println(http.ListenAndServe("127.0.0.1:0", promhttp.Handler()))
}
`
	without, err1 := binaryBytes(ctx, folder, fmt.Sprintf(program, "", ""))
	with, err2 := binaryBytes(ctx, folder, fmt.Sprintf(program, `collector "`+metricsPackage+`"`, "collector."+metricsFunc))
	return float64(with-without) / 1e6, errors.Join(err1, err2)
}

// binaryBytes is the size of a program with the dependencies of this project, as releases are built.
func binaryBytes(ctx context.Context, folder, program string) (int64, error) {
	source, binary := filepath.Join(folder, "main.go"), filepath.Join(folder, "program")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", binary, source)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building a program: %w\n%s", err, text)
	}
	info, err := os.Stat(binary)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
