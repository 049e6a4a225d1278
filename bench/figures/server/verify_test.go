package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// verify checks that a server limits, by as many limits as it is measured with.
func (s *target) verify(ctx context.Context, limits int) error {
	for i := range int64(3) {
		got, err := s.check(ctx, limits, false)
		if err != nil {
			return err
		}
		want := slices.Repeat([]int64{plenty - 1 - i}, limits)
		if !got.allowed || !slices.Equal(got.remaining, want) {
			return fmt.Errorf("%s: request %d by %d limits: allowed %t, %d remain, not %d", s.Name, i+1, limits, got.allowed, got.remaining, want)
		}
	}
	for i := range small + 2 {
		got, err := s.check(ctx, limits, true)
		if err != nil {
			return err
		}
		if want := i < small; got.allowed != want || len(got.remaining) != limits {
			return fmt.Errorf("%s: request %d by a limit of %d: allowed %t, %d remain", s.Name, i+1, small, got.allowed, got.remaining)
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
		return answer{}, fmt.Errorf("%s answers %s %s: %w", s.Name, res.Status, bytes.TrimSpace(said), err)
	}
	return got, nil
}
