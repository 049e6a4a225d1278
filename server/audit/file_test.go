package audit_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/server/audit"
)

// A file that was moved or deleted is created again.
func TestFile_Moved(t *testing.T) {
	reload := func(l *audit.Log) error { return l.Reload() }
	nothing := func(*audit.Log) error { return nil }
	for name, c := range map[string]struct {
		take func(file string) error
		then func(*audit.Log) error
	}{
		"moved":                {func(file string) error { return os.Rename(file, file+".1") }, nothing},
		"moved, with a reload": {func(file string) error { return os.Rename(file, file+".1") }, reload},
		"deleted":              {os.Remove, nothing},
		"replaced": {func(file string) error {
			return errors.Join(os.Rename(file, file+".1"), os.WriteFile(file, nil, 0o600))
		}, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "audit.log")
			log := open(t, audit.Config{File: file})
			for n := range int64(3) {
				if n == 1 {
					if err := errors.Join(c.take(file), c.then(log)); err != nil {
						t.Fatal(err)
					}
				}
				if err := log.Write(t.Context(), change(n)); err != nil {
					t.Fatal(err)
				}
			}
			if found := lines(t, file); len(found) != 2 || found[0].Seq != 2 || found[1].Seq != 3 {
				t.Errorf("the file has %+v", found)
			}
			if name != "deleted" {
				if found := lines(t, file+".1"); len(found) != 1 || found[0].Seq != 1 {
					t.Errorf("moved away were %+v", found)
				}
			}
		})
	}
}

// A file that cannot be created again breaks the log.
func TestFile_NotCreated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	log := open(t, audit.Config{File: file})
	if err := errors.Join(log.Write(t.Context(), change(1)), os.Rename(file, file+".1"), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := log.Reload(); err == nil {
		t.Error("a folder was opened")
	}
	if err := log.Write(t.Context(), change(2)); err == nil || log.Broken() == nil {
		t.Errorf("%v, broken: %v", err, log.Broken())
	}
	if n := len(lines(t, file+".1")); n != 1 {
		t.Errorf("%d lines are where nobody looks", n)
	}
	if err := errors.Join(os.Remove(file), log.Write(t.Context(), change(3)), log.Broken()); err != nil {
		t.Error(err)
	}
	if found := lines(t, file); len(found) != 2 || found[0].Operation != "audit-gap" || found[1].Seq != 3 {
		t.Errorf("%+v", found)
	}
}

// An incomplete line stays a line of its own.
func TestFile_TornLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(file, []byte("{\"seq\":1}\n{\"seq\":2,\"wh"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := open(t, audit.Config{File: file})
	for range 2 {
		if err := log.Write(t.Context(), change(1)); err != nil {
			t.Fatal(err)
		}
	}
	found := lines(t, file)
	if len(found) != 4 || found[0].Seq != 1 || found[1].Seq != 0 || found[2].Who != "token:ci" || found[3].Seq != 2 {
		t.Errorf("%+v", found)
	}
}

// A file that cannot be opened is an error.
func TestFile_NotOpened(t *testing.T) {
	folder := t.TempDir()
	for name, config := range map[string]audit.Config{
		"a folder": {File: folder}, "nowhere": {File: filepath.Join(folder, "no", "audit.log")}, "a device": {File: os.DevNull},
	} {
		if log, err := audit.New(config); err == nil {
			t.Errorf("%s: no error", name)
			_ = log.Close()
		}
	}
}

// A write to a closed log is an error.
func TestLog_Closed(t *testing.T) {
	log := open(t, audit.Config{File: filepath.Join(t.TempDir(), "audit.log")})
	for range 2 {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	}
	err := log.Write(t.Context(), change(1))
	if err == nil || log.Broken() == nil || !strings.HasPrefix(err.Error(), "writing the audit: ") {
		t.Errorf("%v, %v", err, log.Broken())
	}
	if len(log.Recent(0, 0, nil)) != 1 {
		t.Error("the record is not in memory")
	}
}
