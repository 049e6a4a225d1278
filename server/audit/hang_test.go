package audit_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fluxgate/fluxgate/server/audit"
)

// stuck is a log one of whose lines does not come to an end before it is let go.
type stuck struct {
	slog.Handler
	at    uint64
	letGo chan struct{}
}

func (h stuck) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "seq" && a.Value.Uint64() == h.at {
			<-h.letGo
		}
		return false
	})
	return nil
}

// While a write hangs, other calls return at once or after the write timeout of
// five seconds.
func TestLog_HangingWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file, letGo := filepath.Join(t.TempDir(), "audit.log"), make(chan struct{})
		log := open(t, audit.Config{File: file, Logger: slog.New(stuck{slog.DiscardHandler, 1, letGo})})
		first := make(chan error)
		go func() { first <- log.Write(t.Context(), change(1)) }()
		synctest.Wait()
		began := time.Now()
		within := func(what string, want time.Duration) {
			t.Helper()
			if took := time.Since(began); took != want {
				t.Errorf("%s after %s, want %s", what, took, want)
			}
		}
		others := make(chan error)
		for _, call := range []func() error{log.Close, log.Reload, func() error { return log.Write(t.Context(), change(2)) }} {
			go func() { others <- call() }()
		}
		time.Sleep(4999 * time.Millisecond)
		if log.Broken() != nil || len(log.Recent(0, 0, nil)) != 1 {
			t.Errorf("before it counts as hanging: %v, %d records", log.Broken(), len(log.Recent(0, 0, nil)))
		}
		within("it can be asked", 4999*time.Millisecond)
		for range 3 {
			if err := <-others; err == nil {
				t.Error("what waits for it has worked")
			}
			within("others give up", 5*time.Second)
		}
		if log.Broken() == nil || len(log.Recent(0, 0, nil)) != 2 {
			t.Errorf("then: %v, %d records", log.Broken(), len(log.Recent(0, 0, nil)))
		}
		if err := log.Write(t.Context(), change(3)); err == nil {
			t.Error("another write has worked")
		}
		within("the next gives up", 5*time.Second)

		close(letGo)
		if err := <-first; err != nil || log.Broken() != nil {
			t.Errorf("in the end: %v, %v", err, log.Broken())
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
		// They came while the first was on its way to the file.
		found := lines(t, file)
		if len(found) != 2 || !strings.HasPrefix(found[0].Detail, "2 records before this one could not be written") || found[1].Seq != 1 {
			t.Errorf("the file has %+v", found)
		}
	})
}

// A write that hangs breaks the log without another write.
func TestLog_HangingWriteAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		letGo := make(chan struct{})
		log := open(t, audit.Config{File: filepath.Join(t.TempDir(), "audit.log"), Logger: slog.New(stuck{slog.DiscardHandler, 1, letGo})})
		first := make(chan error)
		go func() { first <- log.Write(t.Context(), change(1)) }()
		time.Sleep(4999 * time.Millisecond)
		if log.Broken() != nil {
			t.Errorf("too early: %v", log.Broken())
		}
		time.Sleep(time.Millisecond)
		if log.Broken() == nil {
			t.Error("it is not broken")
		}
		close(letGo)
		if err := <-first; err != nil || log.Broken() != nil {
			t.Errorf("in the end: %v, %v", err, log.Broken())
		}
	})
}

// Close and Reload return although their last record hangs.
func TestLog_CloseDoesNotHang(t *testing.T) {
	for name, end := range map[string]func(*audit.Log) error{"Close": (*audit.Log).Close, "Reload": (*audit.Log).Reload} {
		synctest.Test(t, func(t *testing.T) {
			letGo := make(chan struct{})
			log := open(t, audit.Config{File: filepath.Join(t.TempDir(), "audit.log"), Logger: slog.New(stuck{slog.DiscardHandler, 11, letGo})})
			knock(t, log, "192.0.2.7", 20)
			began := time.Now()
			if err := end(log); err == nil || time.Since(began) != 5*time.Second || log.Broken() == nil {
				t.Errorf("%s: %v after %s, broken: %v", name, err, time.Since(began), log.Broken())
			}
			close(letGo)
		})
	}
}
