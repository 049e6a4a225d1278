package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/background"
)

// topWatch is top in a terminal.
type topWatch struct {
	flags  *topFlags
	client *admin.Client

	answers *topAnswers // the last ones
	at      time.Time   // when they arrived
	err     error       // of the last refresh
}

// topResult is the result of a refresh.
type topResult struct {
	answers *topAnswers
	err     error
}

// run shows the numbers until a key or a signal ends it.
func (w *topWatch) run(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, quit := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	var refreshing sync.WaitGroup
	defer refreshing.Wait()
	defer quit()
	screen, restore, err := openScreen(in, out, quit)
	if err != nil {
		return fmt.Errorf("cannot use the terminal: %w", err)
	}
	defer restore()
	results := make(chan topResult)
	refreshing.Go(func() { w.refresh(ctx, results) })
	// Ticks show the age of old numbers, and follow the size of the window: signals
	// about it do not exist on every system.
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	width, height := 0, 0
	for {
		newWidth, newHeight := terminalSize(out)
		resized := newWidth != width || newHeight != height
		width, height = newWidth, newHeight
		lines := w.answers.lines(width, height, "fluxgate top (q quits)", w.notes(time.Now()))
		if err := screen.draw(lines, height, resized); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case result := <-results:
			w.take(result)
		case <-tick.C:
		}
	}
}

// refresh sends new numbers in every interval.
func (w *topWatch) refresh(ctx context.Context, results chan<- topResult) {
	for background.Sleep(ctx, w.flags.interval) == nil {
		answers, err := fetchTop(ctx, w.client)
		select {
		case <-ctx.Done():
			return
		case results <- topResult{answers, err}:
		}
	}
}

func (w *topWatch) take(result topResult) {
	if w.err = result.err; w.err == nil {
		w.answers, w.at = result.answers, time.Now()
	}
}

// notes say how old the numbers are if the server does not answer, and why.
func (w *topWatch) notes(now time.Time) []topLine {
	age := now.Sub(w.at)
	if w.err == nil && age < w.flags.interval+2*time.Second {
		return nil
	}
	old := fmt.Sprintf("the numbers are %s old", duration(age))
	switch {
	case w.err == nil:
		return []topLine{{yellow, old + ": waiting for the server"}}
	case errors.Is(w.err, context.DeadlineExceeded):
		old += fmt.Sprintf(": the server does not answer within %v", maxAnswerTime)
	default:
		old += ": " + word(w.err.Error())
	}
	notes := []topLine{{red, old}}
	for line := range strings.Lines(w.flags.advice(w.err)) {
		notes = append(notes, topLine{red, word(line)})
	}
	return notes
}
