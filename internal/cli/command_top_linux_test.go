package cli

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// In a terminal top refreshes in place, follows the size of the window, keeps the last
// numbers while the server fails, and restores the terminal.
func TestTop_Terminal(t *testing.T) {
	testenv.SkipShort(t)
	t.Parallel()
	fleet := busyFleet()
	p := startInTerminal(t, 80, 24, "top", "--interval", "500ms", "--server", fleet.start(t))
	p.shows(t, "fluxgate top  3 servers")
	var want []string
	for _, l := range fleet.decode(t).lines(80, 24, nil) {
		want = append(want, l.text)
	}
	testenv.Eventually(t, "the screen shows every character", func() bool {
		return strings.TrimSpace(screenOf(p.text(), 80, 24)) == strings.Join(want, "\n")
	})
	p.resize(t, 140, 40)
	p.shows(t, "api-limits/per-address-of-the-public-catalogue ")
	p.resize(t, 40, 10)
	p.shows(t, "1 of version 1.3.9  15:00:00 UTC\r\n")

	p.resize(t, 140, 40)
	fleet.fail.Store(http.StatusUnauthorized)
	p.shows(t, "old: The token has �[31mexpired.")
	p.shows(t, "the server requires authentication")
	p.shows(t, "the numbers are 2s old")
	p.shows(t, "user alice")
	fleet.fail.Store(0)
	p.shows(t, "p99 13 ms\r\n\x1b[31mRedis 10.0.0.2:6379 is unavailable")
	p.interrupt(t)
	p.restored(t)
}

// Every way to end top restores the terminal.
func TestTop_Restores(t *testing.T) {
	testenv.SkipShort(t)
	fleet := busyFleet()
	address := fleet.start(t)
	for name, end := range map[string]func(*testing.T, *pty){
		"ctrl-C":  func(t *testing.T, p *pty) { p.interrupt(t) },
		"SIGINT":  func(_ *testing.T, p *pty) { _ = p.cmd.Process.Signal(os.Interrupt) },
		"SIGTERM": func(_ *testing.T, p *pty) { _ = p.cmd.Process.Signal(syscall.SIGTERM) },
		"SIGHUP":  func(_ *testing.T, p *pty) { _ = p.cmd.Process.Signal(syscall.SIGHUP) },
		"ctrl-C while the server does not answer": func(t *testing.T, p *pty) {
			fleet.hold.Store(true)
			p.shows(t, "old: the server does not answer within 5s")
			p.interrupt(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			fleet.hold.Store(false)
			p := startInTerminal(t, 80, 24, "top", "--interval", "500ms", "--server", address)
			p.shows(t, "3 servers")
			end(t, p)
			p.restored(t)
		})
	}
}

// Text of the server cannot control the terminal.
func TestTop_HostileText(t *testing.T) {
	testenv.SkipShort(t)
	t.Parallel()
	p := startInTerminal(t, 300, 60, "top", "--server", hostileFleet().start(t))
	p.shows(t, "2 servers")
	p.interrupt(t)
	p.restored(t)
	ours := regexp.MustCompile(`\x1b\[(\?(1049|25|7)[hl]|H|2J|3[123]m|0m)|\r\n`)
	if text := ours.ReplaceAllString(p.text(), ""); strings.ContainsAny(text, "\x1b\u009b\u202e\x7f\r\n") {
		t.Errorf("%q", text)
	}
}

// With --once a terminal gets no control sequences.
func TestTop_OnceInTerminal(t *testing.T) {
	testenv.SkipShort(t)
	t.Parallel()
	p := startInTerminal(t, 140, 24, "top", "--once", "--server", busyFleet().start(t))
	p.wait(t)
	testenv.Eventually(t, "the numbers are printed", func() bool { return strings.HasSuffix(p.text(), " 96        1\r\n") })
	if text := p.text(); strings.Contains(text, "\x1b") || !strings.Contains(text, "  api-limits/per-address-of-the-public-catalogue ") {
		t.Errorf("%q", text)
	}
}
