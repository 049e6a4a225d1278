package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Old numbers come with their age and the reason in words.
func TestTop_Notes(t *testing.T) {
	for _, c := range []struct {
		age  time.Duration
		err  error
		want string
	}{
		{time.Minute, fmt.Errorf("calling the server: %w", context.DeadlineExceeded), "the numbers are 1m old: the server does not answer within 5s\nis a server running at http://127.0.0.1:9090? see fluxgate serve --help"},
		{time.Second, errors.New("\x1b[2J"), "the numbers are 1s old: �[2J"},
	} {
		var flags topFlags
		flags.serverOnly, flags.listener, flags.server = true, adminListener, adminListener.address
		var got []string
		for _, l := range flags.notes(c.age, c.err) {
			got = append(got, l.text)
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

// brokenScreen is a terminal that fails after some writes, and records all.
type brokenScreen struct {
	writes int
	all    strings.Builder
}

func (*brokenScreen) IsTerminal() bool { return true }
func (*brokenScreen) Size() (int, int) { return 80, 24 }

func (s *brokenScreen) Write(b []byte) (int, error) {
	s.all.Write(b)
	if s.writes--; s.writes < 0 {
		return 0, errors.New("input/output error")
	}
	return len(b), nil
}

// An error ends the command and leaves the alternate screen.
func TestTop_WriteError(t *testing.T) {
	t.Setenv("TERM", "xterm")
	address := busyFleet().start(t)
	for writes := range 2 {
		out, errs := &brokenScreen{writes: writes}, &strings.Builder{}
		code := run(t.Context(), "dev", []string{"top", "--interval", "500ms", "--server", address}, strings.NewReader(""), out, errs)
		if code != exitError || !strings.Contains(errs.String(), "input/output error") || !strings.HasSuffix(out.all.String(), leaveScreen) {
			t.Errorf("exit code %d: %s\n%q", code, errs, out.all.String())
		}
	}
}

// A terminal without control sequences gets the numbers once.
func TestTop_DumbTerminal(t *testing.T) {
	t.Setenv("TERM", "dumb")
	out := &brokenScreen{writes: 1_000}
	code := run(t.Context(), "dev", []string{"top", "--server", busyFleet().start(t)}, strings.NewReader(""), out, &strings.Builder{})
	if code != exitOK || strings.Contains(out.all.String(), "\x1b") || !strings.Contains(out.all.String(), "3 servers") {
		t.Errorf("exit code %d: %q", code, out.all.String())
	}
}
