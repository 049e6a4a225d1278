package audit_test

import (
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
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
	file := filepath.Join(t.TempDir(), "audit.log")
	log, _ := open(t, file)
	write(t, log, change(1))
	mend := full(t, 300) // one record and a part of the next
	for range 3 {
		if log.Write(t.Context(), change(2)); log.Broken() == nil {
			t.Fatal("on a full disk it is not broken")
		}
	}
	mend()
	write(t, log, change(3))
	write(t, log, change(4))
	found := lines(t, file)
	if len(found) != 4 || found[0].Before != 1 || found[1].Who != "" || found[2].Before != 3 || found[2].Seq != 5 || found[3].Before != 4 {
		t.Fatalf("%+v", found)
	}
}
