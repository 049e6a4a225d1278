package insight

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/fluxgate/fluxgate/console"
)

// ConsoleBundleKB is the size of all assets of the console, compressed as they are served.
func ConsoleBundleKB(ctx context.Context, folder string) (float64, error) {
	handler, err := console.New()
	if err != nil {
		return 0, err
	}
	files, err := os.ReadDir(filepath.Join(folder, "dist"))
	if err != nil {
		return 0, err
	}
	total := 0
	for _, file := range files {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, console.Path+file.Name(), nil)
		r.Header.Set("Accept-Encoding", "gzip")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		total += answer.Body.Len()
	}
	return float64(total) / 1e3, nil
}

var firstPaint = regexp.MustCompile(`first paint: (\d+) ms`)

// ConsoleFirstPaint is the time in milliseconds until a browser with an empty cache shows
// the console, the median of several.
func ConsoleFirstPaint(ctx context.Context, folder string) (float64, error) {
	cmd := exec.CommandContext(ctx, "npm", "run", "--silent", "e2e")
	cmd.Dir, cmd.Env = folder, append(os.Environ(), "E2E=first-paint.ts")
	text, err := cmd.CombinedOutput()
	found := firstPaint.FindSubmatch(text)
	if err != nil || found == nil {
		return 0, fmt.Errorf("opening the console: %w\n%s", err, text)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}
