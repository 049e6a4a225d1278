package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// A write that hangs breaks the log. The disk is a pipe without a reader.
func TestFile_DiskHangs(t *testing.T) {
	log, err := New(Config{File: filepath.Join(t.TempDir(), "audit.log")})
	if err != nil {
		t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	// The beginning of it is full.
	if err := write.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	full := 0
	for err == nil {
		var n int
		n, err = write.Write(make([]byte, 4096))
		full += n
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	is, err := write.Stat()
	if err := errors.Join(err, log.file.close(), write.SetWriteDeadline(time.Time{})); err != nil {
		t.Fatal(err)
	}
	log.patience = 2 * time.Second
	log.file.name, log.file.to, log.file.info = fmt.Sprintf("/proc/self/fd/%d", write.Fd()), write, is

	hung := make(chan error, 1)
	go func() { hung <- log.Write(t.Context(), Record{Operation: "first"}) }()
	testenv.Eventually(t, "the log is broken", func() bool { return log.Broken() != nil })
	if err := log.Write(t.Context(), Record{Operation: "second"}); !errors.Is(err, errHangs) {
		t.Errorf("another write: %v", err)
	}
	if err := log.Reload(); !errors.Is(err, errHangs) {
		t.Errorf("a reload: %v", err)
	}
	if err := log.Close(); !errors.Is(err, errHangs) {
		t.Errorf("closing it: %v", err)
	}
	if n := len(log.Recent(0, 0, nil)); n != 2 {
		t.Errorf("%d records are in memory", n)
	}

	text := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(read)
		text <- all
	}()
	if err := <-hung; err != nil || log.Broken() != nil {
		t.Errorf("in the end: %v, %v", err, log.Broken())
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	got := bytes.Split((<-text)[full:], []byte("\n"))
	if len(got) != 3 || !bytes.Contains(got[0], []byte("first")) || !bytes.Contains(got[1], []byte("1 records before this one")) {
		t.Errorf("it was written: %q", got)
	}
}
