package audit_test

import (
	"bytes"
	"log/slog"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fluxgate/fluxgate/server/audit"
)

// full keeps files of this process from growing beyond a size, as a full disk
// does, until its function is called.
func full(t *testing.T, size int) func() {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(size), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	mend := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(mend)
	return mend
}

// A disk that is full in the middle of a record leaves an incomplete line and no
// other damage.
func TestFile_FullDisk(t *testing.T) {
	for name, mended := range map[string]func(*audit.Log) error{
		"mended by the next record": func(*audit.Log) error { return nil },
		"mended by a reload":        (*audit.Log).Reload,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "audit.log")
			var said bytes.Buffer
			log := open(t, audit.Config{File: file, Logger: slog.New(slog.NewTextHandler(&said, nil))})
			if err := log.Write(t.Context(), change(1)); err != nil {
				t.Fatal(err)
			}
			mend := full(t, 300) // one record and a part of the next
			for range 3 {
				if err := log.Write(t.Context(), change(2)); err == nil || log.Broken() == nil {
					t.Fatalf("on a full disk: %v, %v", err, log.Broken())
				}
			}
			if err := log.Reload(); err == nil || log.Broken() == nil {
				t.Errorf("a reload that can write nothing has mended it: %v, %v", err, log.Broken())
			}
			mend()
			if err := mended(log); err != nil {
				t.Fatal(err)
			}
			if broken := log.Broken() != nil; broken != strings.HasSuffix(name, "record") {
				t.Errorf("before the next record it is broken: %t", broken)
			}
			if err := log.Write(t.Context(), change(3)); err != nil || log.Broken() != nil {
				t.Errorf("when there is room: %v, %v", err, log.Broken())
			}
			found := lines(t, file)
			if len(found) != 4 || found[0].Before != 1 || found[1].Who != "" || found[2].Operation != "audit-gap" || found[3].Before != 3 || found[3].Seq != 5 {
				t.Fatalf("%+v", found)
			}
			if gap := found[2]; !strings.HasPrefix(gap.Detail, "3 records before this one") || gap.Outcome != audit.Failed {
				t.Errorf("%+v", gap)
			}
			if text := said.String(); strings.Count(text, "msg=audit") != 5 || strings.Count(text, "cannot write the audit file") != 1 {
				t.Errorf("logged\n%s", text)
			}
			if len(log.Recent(0, 0, nil)) != 5 {
				t.Error("not all are in memory")
			}
		})
	}
}
