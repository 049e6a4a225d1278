package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

const (
	plenty = 1_000 // a limit that no user reaches
	small  = 3     // a limit that is reached at once
)

// target is a server that decides, on a Redis of its own.
type target struct {
	name  string
	url   string // where checks are posted
	redis *testenv.Server
	// counts is the command by which the server counts for one limit.
	counts string
	// body is a check for a user, USER, by so many limits. The last one may be
	// the small one.
	body func(limits int, small bool) string
	// read reads an answer.
	read func(body []byte) (answer, error)
}

// answer is the relevant part of an answer.
type answer struct {
	allowed   bool
	remaining []int64 // of each limit
}

// fluxgateRules has one limit under /one, three under /three and, under the
// same names with -small, the last of them small.
const fluxgateRules = `
id: api-limits
rules:
  - { id: one, path: /one, limitScope: USER_ID, bands: [{ capacity: PLENTY, refill: 1h }] }
  - { id: one-small, path: /one-small, limitScope: USER_ID, bands: [{ capacity: SMALL, refill: 24h }] }
  - { id: minute, path: /three, limitScope: USER_ID, bands: [{ capacity: PLENTY, refill: 1m }] }
  - { id: hour, path: /three, limitScope: USER_ID, bands: [{ capacity: PLENTY, refill: 1h }] }
  - { id: day, path: /three, limitScope: USER_ID, bands: [{ capacity: PLENTY, refill: 24h }] }
  - { id: minute-small, path: /three-small, limitScope: USER_ID, bands: [{ capacity: PLENTY, refill: 1m }] }
  - { id: hour-small, path: /three-small, limitScope: USER_ID, bands: [{ capacity: PLENTY, refill: 1h }] }
  - { id: day-small, path: /three-small, limitScope: USER_ID, bands: [{ capacity: SMALL, refill: 24h }] }
`

// ratelimitRules are as many limits for envoyproxy/ratelimit: a descriptor
// each.
const ratelimitRules = `
domain: figures
descriptors:
  - { key: minute, rate_limit: { unit: minute, requests_per_unit: PLENTY } }
  - { key: hour, rate_limit: { unit: hour, requests_per_unit: PLENTY } }
  - { key: day, rate_limit: { unit: day, requests_per_unit: PLENTY } }
  - { key: small, rate_limit: { unit: day, requests_per_unit: SMALL } }
`

// write fills rules in and writes them to a file.
func write(file, rules string) error {
	rules = strings.NewReplacer("PLENTY", strconv.Itoa(plenty), "SMALL", strconv.Itoa(small)).Replace(rules)
	return os.WriteFile(file, []byte(rules), 0o600)
}

// startFluxgate runs the server of this tree with its defaults, but for the
// time that Redis has: neither side may time out on a busy machine.
func startFluxgate(t *testing.T) (*target, error) {
	t.Helper()
	folder := t.TempDir()
	program, err := buildOurs(t.Context(), folder)
	if err != nil {
		return nil, err
	}
	rules := filepath.Join(folder, "rules.yaml")
	if err := write(rules, fluxgateRules); err != nil {
		return nil, err
	}
	redis, addr := testenv.StartStandalone(t, testenv.Config{}), testenv.FreeAddr(t)
	err = start(t, "http://"+addr+"/readyz", nil, program, "serve",
		"--set", "server.http="+addr, "--set", "server.admin=", "--set", "rules.file="+rules, "--set", "mongo.enabled=false",
		"--set", "redis.uri="+redis.URI(), "--set", "redis.timeout=10s", "--set", "log.level=error")
	return &target{
		name: "fluxgate", url: "http://" + addr + "/v1/check", redis: redis, counts: "psetex", read: readFluxgate,
		body: func(limits int, small bool) string {
			path := map[int]string{1: "/one", 3: "/three"}[limits]
			if small {
				path += "-small"
			}
			return fmt.Sprintf(`{"userId":"USER","method":"GET","path":%q}`, path)
		},
	}, err
}

func readFluxgate(body []byte) (answer, error) {
	var said struct {
		Allowed  bool
		Degraded bool
		Bands    []struct{ Remaining int64 }
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return answer{}, err
	}
	if said.Degraded {
		return answer{}, errors.New("Redis was not asked")
	}
	a := answer{allowed: said.Allowed}
	for _, band := range said.Bands {
		a.remaining = append(a.remaining, band.Remaining)
	}
	return a, nil
}

// startRatelimit runs envoyproxy/ratelimit at its best. Its 10 connections are
// the default: with 4 or 64 it is not faster. Its window for pipelining is what
// its README recommends, though that has an effect with a cluster only: one
// server is asked for all that a request needs at once anyway. Its
// statistics are not collected, and its cache of users over the limit stays off, since
// there are none.
func startRatelimit(t *testing.T) (*target, error) {
	t.Helper()
	program, err := buildTheirs(t.Context())
	if err != nil {
		return nil, err
	}
	root := t.TempDir()
	folder := filepath.Join(root, "figures", "config")
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return nil, err
	}
	if err := write(filepath.Join(folder, "limits.yaml"), ratelimitRules); err != nil {
		return nil, err
	}
	redis := testenv.StartStandalone(t, testenv.Config{})
	environ := []string{
		"RUNTIME_ROOT=" + root, "RUNTIME_SUBDIRECTORY=figures", "RUNTIME_WATCH_ROOT=false",
		"BACKEND_TYPE=redis", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis.Addr(), "REDIS_POOL_SIZE=10",
		"REDIS_PIPELINE_WINDOW=150us", "LOCAL_CACHE_SIZE_IN_BYTES=0", "USE_STATSD=false", "DISABLE_STATS=true", "LOG_LEVEL=error",
	}
	addr := testenv.FreeAddr(t)
	for prefix, addr := range map[string]string{"": addr, "GRPC_": testenv.FreeAddr(t), "DEBUG_": testenv.FreeAddr(t)} {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		environ = append(environ, prefix+"HOST="+host, prefix+"PORT="+port)
	}
	err = start(t, "http://"+addr+"/healthcheck", environ, program)
	return &target{
		name: "ratelimit", url: "http://" + addr + "/json", redis: redis, counts: "incrby", read: readRatelimit,
		body: func(limits int, small bool) string {
			keys := []string{"minute", "hour", "day"}
			if limits == 1 {
				keys = []string{"hour"}
			}
			if small {
				keys[limits-1] = "small"
			}
			var descriptors []string
			for _, key := range keys {
				descriptors = append(descriptors, fmt.Sprintf(`{"entries":[{"key":%q,"value":"USER"}]}`, key))
			}
			return `{"domain":"figures","descriptors":[` + strings.Join(descriptors, ",") + `]}`
		},
	}, err
}

func readRatelimit(body []byte) (answer, error) {
	var said struct {
		OverallCode string
		Statuses    []struct{ LimitRemaining int64 }
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return answer{}, err
	}
	a := answer{allowed: said.OverallCode == "OK"}
	for _, status := range said.Statuses {
		a.remaining = append(a.remaining, status.LimitRemaining)
	}
	return a, nil
}
