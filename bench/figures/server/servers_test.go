package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/bench/load"
	"github.com/fluxgate/fluxgate/bench/servers"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

const (
	plenty = 1_000 // a limit that no user reaches
	small  = 3     // a limit that is reached at once
)

// target is a server that decides, on a Redis of its own.
type target struct {
	*load.Service
	url string // where checks are posted
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

// fill fills the numbers of rules in.
func fill(rules string) string {
	return strings.NewReplacer("PLENTY", strconv.Itoa(plenty), "SMALL", strconv.Itoa(small)).Replace(rules)
}

func startFluxgate(t *testing.T) *target {
	t.Helper()
	redis := testenv.StartStandalone(t, testenv.Config{})
	server := servers.Fluxgate(t, redis, fill(fluxgateRules))
	return &target{
		Service: &load.Service{Name: "fluxgate", Server: server, Redis: redis, Counts: "psetex"},
		url:     "http://" + server.HTTP + "/v1/check", read: readFluxgate,
		body: func(limits int, small bool) string {
			path := map[int]string{1: "/one", 3: "/three"}[limits]
			if small {
				path += "-small"
			}
			return fmt.Sprintf(`{"userId":"USER","method":"GET","path":%q}`, path)
		},
	}
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

// startRatelimit runs envoyproxy/ratelimit without its cache of callers over the limit,
// since there are none.
func startRatelimit(t *testing.T) (*target, error) {
	t.Helper()
	redis := testenv.StartStandalone(t, testenv.Config{})
	server, err := servers.Ratelimit(t, redis, fill(ratelimitRules), 0)
	if err != nil {
		return nil, err
	}
	return &target{
		Service: &load.Service{Name: "ratelimit", Server: server, Redis: redis, Counts: "incrby"},
		url:     "http://" + server.HTTP + "/json", read: readRatelimit,
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
	}, nil
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
