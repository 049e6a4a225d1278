package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/background"
)

// The sequences of a terminal: enter and leave the alternate screen, without a cursor and
// without wrapping lines, and clear it.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	clearScreen = "\x1b[H\x1b[2J"
)

// watch shows new numbers in every interval until a signal.
func (f *topFlags) watch(ctx context.Context, client *admin.Client, answers *topAnswers, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	paint, arrived := painter(out), time.Now()
	var notes []topLine
	defer printf(out, leaveScreen)
	for enter := enterScreen; ; enter = "" {
		width, height := terminalSize(out)
		var lines []string
		for _, l := range answers.lines(width, height, notes) {
			lines = append(lines, paint(l.colour, l.text))
		}
		if _, err := io.WriteString(out, enter+clearScreen+strings.Join(lines, "\n")); err != nil {
			return err
		}
		if background.Sleep(ctx, f.interval) != nil {
			return nil
		}
		fresh, err := fetchTop(ctx, client)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			notes = f.notes(time.Since(arrived), err)
		default:
			answers, arrived, notes = fresh, time.Now(), nil
		}
	}
}

// notes say how old the numbers are while the server does not answer, and why.
func (f *topFlags) notes(age time.Duration, err error) []topLine {
	why := word(err.Error())
	if errors.Is(err, context.DeadlineExceeded) {
		why = fmt.Sprintf("the server does not answer within %v", maxAnswerTime)
	}
	notes := []topLine{{red, fmt.Sprintf("the numbers are %s old: %s", duration(age), why)}}
	for line := range strings.Lines(f.advice(err)) {
		notes = append(notes, topLine{red, word(line)})
	}
	return notes
}
