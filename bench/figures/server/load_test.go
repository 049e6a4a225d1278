package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	connections = 64
	threads     = 2
	users       = 50_000 // of each thread
)

// load is the throughput and latency of a server.
type load struct {
	perSecond float64
	p50, p99  time.Duration
}

func (l load) String() string {
	return fmt.Sprintf("%.0f/s p50 %v p99 %v", l.perSecond, l.p50, l.p99)
}

// run sends requests with wrk for a while. A request that failed, was refused
// or was not counted in Redis fails the run: it would have been cheaper than
// others.
func (s *target) run(ctx context.Context, limits int, length time.Duration) (load, error) {
	before, err := s.counted(ctx)
	if err != nil {
		return load{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, length+time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "wrk", "--connections", strconv.Itoa(connections), "--threads", strconv.Itoa(threads),
		"--duration", length.String(), "--timeout", "30s", "--script", "load.lua", s.url, "--", s.body(limits, false), strconv.Itoa(users))
	out, err := command.CombinedOutput()
	if err != nil {
		return load{}, fmt.Errorf("wrk, of the Debian package wrk: %w: %s", err, out)
	}
	var requests, took, p50, p99, failed, refused int
	_, line, _ := strings.Cut(string(out), "\nload ")
	if _, err := fmt.Sscan(line, &requests, &took, &p50, &p99, &failed, &refused); err != nil {
		return load{}, fmt.Errorf("wrk said %s", out)
	}
	after, err := s.counted(ctx)
	switch {
	case err != nil:
		return load{}, err
	case failed > 0 || refused > 0:
		return load{}, fmt.Errorf("%s: of %d requests %d failed and %d were refused", s.name, requests, failed, refused)
	case requests == 0 || after-before < requests*limits:
		return load{}, fmt.Errorf("%s: %d requests were counted %d times by %d limits", s.name, requests, after-before, limits)
	}
	return load{
		perSecond: float64(requests) / (time.Duration(took) * time.Microsecond).Seconds(),
		p50:       time.Duration(p50) * time.Microsecond, p99: time.Duration(p99) * time.Microsecond,
	}, nil
}

// counted is how often Redis has counted a request for a limit.
func (s *target) counted(ctx context.Context) (int, error) {
	stats, err := s.redis.Info(ctx, "commandstats")
	if err != nil {
		return 0, err
	}
	var calls int
	if line := stats["cmdstat_"+s.counts]; line != "" {
		_, err = fmt.Sscanf(line, "calls=%d,", &calls)
	}
	return calls, err
}

// verify checks that a server limits, by as many limits as it is measured with.
func (s *target) verify(ctx context.Context, limits int) error {
	for i := range int64(3) {
		got, err := s.check(ctx, limits, false)
		if err != nil {
			return err
		}
		want := slices.Repeat([]int64{plenty - 1 - i}, limits)
		if !got.allowed || !slices.Equal(got.remaining, want) {
			return fmt.Errorf("%s: request %d by %d limits: allowed %t, %d remain, not %d", s.name, i+1, limits, got.allowed, got.remaining, want)
		}
	}
	for i := range small + 2 {
		got, err := s.check(ctx, limits, true)
		if err != nil {
			return err
		}
		if want := i < small; got.allowed != want || len(got.remaining) != limits {
			return fmt.Errorf("%s: request %d by a limit of %d: allowed %t, %d remain", s.name, i+1, small, got.allowed, got.remaining)
		}
	}
	return nil
}

// check sends one check, for a user of its own.
func (s *target) check(ctx context.Context, limits int, small bool) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	body := strings.ReplaceAll(s.body(limits, small), "USER", fmt.Sprintf("verified-by-%d", limits))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	said, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	got, err := s.read(said)
	if err != nil {
		return answer{}, fmt.Errorf("%s answers %s %s: %w", s.name, res.Status, bytes.TrimSpace(said), err)
	}
	return got, nil
}
