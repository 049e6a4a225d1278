// Package servers starts the server of this tree and envoyproxy/ratelimit, to measure
// one against the other.
package servers

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// Fluxgate runs the server of this tree with its defaults and some rules, and returns
// the address of its API. Redis has more time than by default: no side may time out on a
// busy machine.
func Fluxgate(tb testing.TB, redis *testenv.Server, rules string) (addr string) {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		tb.Fatal(err)
	}
	addr = testenv.FreeAddr(tb)
	program := testenv.StartProgram(tb, testenv.Fluxgate(tb), "serve",
		"--set", "server.http="+addr, "--set", "server.admin=", "--set", "rules.file="+file, "--set", "mongo.enabled=false",
		"--set", "redis.uri="+redis.URI(), "--set", "redis.timeout=10s", "--set", "log.level=error")
	awaitReady(tb, program, "http://"+addr+"/readyz")
	return addr
}

// awaitReady returns when a URL of the program answers 200.
func awaitReady(tb testing.TB, program *testenv.Program, url string) {
	tb.Helper()
	testenv.Eventually(tb, url+" answers", func() bool {
		return !program.Running() || answers(tb, url) == nil
	})
	if !program.Running() {
		tb.Fatalf("the server of %s has ended", url) // its output follows
	}
}

func answers(tb testing.TB, url string) error {
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, res.Status)
	}
	return nil
}
