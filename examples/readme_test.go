package examples_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// The Go code of the README, pasted into an empty module with nothing changed but
// the port, is a program that limits.
func TestReadme_GoCode(t *testing.T) {
	testenv.SkipShort(t)
	blocks := blocksOf(t, "../README.md", "go")
	lines, keyLimiter := blocks[0], blocks[1]
	if guide := blocksOf(t, "../docs/middleware.md", "go")[0]; guide != lines {
		t.Errorf("README.md and docs/middleware.md begin with other lines:\n%s\n%s", lines, guide)
	}
	if n := strings.Count(strings.TrimSpace(lines), "\n") + 1; n != 5 {
		t.Errorf("there are %d lines", n)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	addr := testenv.FreeAddr(t)
	folder := t.TempDir()
	write(t, filepath.Join(folder, "go.mod"), "module example.com/pasted\n\ngo 1.26.0\n\nrequire github.com/fluxgate/fluxgate v0.0.0\n\nreplace github.com/fluxgate/fluxgate => "+root+"\n")
	write(t, filepath.Join(folder, "main.go"), `package main

import (
	"context"
	"log"
	"net/http"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit"
	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/store/memstore"
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
	ctx := context.Background()
`+strings.NewReplacer(":8080", addr, "log.Fatal(", keyLimiter+`if err != nil || d.Remaining != 4 { log.Fatal(d, err) }
log.Fatal(`).Replace(lines)+"}\n")
	sums, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "go.sum"), string(sums))
	command := exec.CommandContext(t.Context(), "go", "build", "-mod=mod", "-o", "pasted", ".")
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program := exec.Command(filepath.Join(folder, "pasted"))
	var said bytes.Buffer
	program.Stderr = &said
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	}()
	url := "http://" + addr + "/"
	waitForIt(t, url)
	for i := range 150 {
		switch status, body, header := get(t, url); {
		case i < 90 && status != http.StatusOK:
			t.Fatalf("request %d: %d %s", i, status, body)
		case status == http.StatusTooManyRequests:
			if header.Get("Retry-After") != "1" || !strings.Contains(body, "per-ip.100-per-1m") {
				t.Errorf("%v %s", header, body)
			}
			return
		}
	}
	t.Errorf("nobody was refused; it said %s", said.String())
}

// blocksOf are the blocks of a language on a page.
func blocksOf(t *testing.T, page, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no block of %s", page, language)
	}
	return blocks
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// waitForIt waits until a program answers.
func waitForIt(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
			return
		}
		if ctx.Err() != nil {
			t.Fatal(fmt.Errorf("the program does not answer: %w", ctx.Err()))
		}
		time.Sleep(10 * time.Millisecond)
	}
}
