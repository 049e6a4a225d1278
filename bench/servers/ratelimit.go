package servers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

const (
	ratelimit = "github.com/envoyproxy/ratelimit/src/service_cmd"
	// RatelimitVersion is that of envoyproxy/ratelimit.
	RatelimitVersion = "v1.4.1-0.20260122083618-3fb702589d36"
)

// buildRatelimit builds envoyproxy/ratelimit once, and keeps it for the next run.
func buildRatelimit(ctx context.Context) (program string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "fluxgate-figures", "ratelimit-"+RatelimitVersion)
	program = filepath.Join(folder, filepath.Base(ratelimit))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return "", err
	}
	unfinished, err := os.MkdirTemp(folder, "building")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(unfinished) }()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, "go", "install", ratelimit+"@"+RatelimitVersion)
	install.Env = append(os.Environ(), "GOBIN="+unfinished)
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w: %s", install.Args, err, out)
	}
	return program, os.Rename(filepath.Join(unfinished, filepath.Base(ratelimit)), program)
}

// Ratelimit runs envoyproxy/ratelimit at its best with some limits. Its 10 connections are
// the default: with 4 or 64 it is not faster. Its window for pipelining is what its README recommends, though that has an
// effect with a cluster only: one server is asked for all that a request needs at once
// anyway. Its statistics are not collected. cacheBytes is the size of its cache of
// callers over the limit, 0 for none. The error is that it could not be built.
func Ratelimit(tb testing.TB, redis *testenv.Server, limits string, cacheBytes int) (*Server, error) {
	tb.Helper()
	program, err := buildRatelimit(tb.Context())
	if err != nil {
		return nil, err
	}
	root := tb.TempDir()
	folder := filepath.Join(root, "figures", "config")
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(folder, "limits.yaml"), []byte(limits), 0o600); err != nil {
		return nil, err
	}
	args := []string{ // of env, which runs the program with these variables
		"RUNTIME_ROOT=" + root, "RUNTIME_SUBDIRECTORY=figures", "RUNTIME_WATCH_ROOT=false",
		"BACKEND_TYPE=redis", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis.Addr(), "REDIS_POOL_SIZE=10",
		"REDIS_PIPELINE_WINDOW=150us", fmt.Sprintf("LOCAL_CACHE_SIZE_IN_BYTES=%d", cacheBytes),
		"USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=error",
	}
	s := &Server{HTTP: testenv.FreeAddr(tb), GRPC: testenv.FreeAddr(tb)}
	for prefix, addr := range map[string]string{"": s.HTTP, "GRPC_": s.GRPC, "DEBUG_": testenv.FreeAddr(tb)} {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		args = append(args, prefix+"HOST="+host, prefix+"PORT="+port)
	}
	s.Program = testenv.StartProgram(tb, "env", append(args, program)...)
	awaitReady(tb, s.Program, "http://"+s.HTTP+"/healthcheck")
	return s, nil
}
