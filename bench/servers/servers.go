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

// Server is a server that runs.
type Server struct {
	HTTP, GRPC string // the addresses of its APIs
	*testenv.Program
}

// Fluxgate runs the server of this tree with some rules, and with its defaults but for
// the settings.
func Fluxgate(tb testing.TB, redis *testenv.Server, rules string, settings ...string) *Server {
	tb.Helper()
	return Start(tb, testenv.Fluxgate(tb), redis, append(settings, "rules.file="+RulesFile(tb, rules))...)
}

// FluxgateForEnvoy runs the server of this tree with the configuration of
// envoyproxy/ratelimit. It asks Redis for every decision, as envoyproxy/ratelimit does.
func FluxgateForEnvoy(tb testing.TB, redis *testenv.Server, limits string) *Server {
	tb.Helper()
	return Start(tb, testenv.Fluxgate(tb), redis, "rules.envoy-files="+RulesFile(tb, limits), "redis.leases=off")
}

// RulesFile writes rules to a file.
func RulesFile(tb testing.TB, yaml string) (file string) {
	tb.Helper()
	file = filepath.Join(tb.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}

// Start runs a program that is fluxgate. It gives Redis more time than by default: no side may
// time out on a busy machine.
func Start(tb testing.TB, program string, redis *testenv.Server, settings ...string) *Server {
	tb.Helper()
	s := &Server{HTTP: testenv.FreeAddr(tb), GRPC: testenv.FreeAddr(tb)}
	args := []string{"serve"}
	for _, setting := range append(settings, "server.http="+s.HTTP, "server.grpc="+s.GRPC, "server.admin=", "mongo.enabled=false",
		"redis.uri="+redis.URI(), "redis.timeout=10s", "log.level=error") {
		args = append(args, "--set", setting)
	}
	s.Program = testenv.StartProgram(tb, program, args...)
	awaitReady(tb, s.Program, "http://"+s.HTTP+"/readyz")
	return s
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
