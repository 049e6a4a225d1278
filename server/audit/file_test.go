package audit_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/server/audit"
)

// A file that was moved or deleted is created again.
func TestFile_Moved(t *testing.T) {
	for name, take := range map[string]func(file string) error{
		"moved":   func(file string) error { return os.Rename(file, file+".1") },
		"deleted": os.Remove,
		"replaced": func(file string) error {
			return errors.Join(os.Rename(file, file+".1"), os.WriteFile(file, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "audit.log")
			log, _ := open(t, file)
			write(t, log, change(0))
			if err := take(file); err != nil {
				t.Fatal(err)
			}
			write(t, log, change(1))
			write(t, log, change(2))
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

// A file that cannot be written breaks the log until the next record that can be.
func TestFile_NotWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	log, said := open(t, file)
	write(t, log, change(1))
	if err := errors.Join(os.Rename(file, file+".1"), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		log.Write(t.Context(), change(2))
		if err := log.Broken(); err == nil || !strings.HasPrefix(err.Error(), "writing the audit: ") {
			t.Errorf("broken: %v", err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if log.Broken() == nil {
		t.Error("nothing was written, and it is not broken")
	}
	write(t, log, change(3))
	if found := lines(t, file); len(found) != 1 || found[0].Seq != 4 {
		t.Errorf("%+v", found)
	}
	text := said.String()
	if strings.Count(text, "msg=audit ") != 4 || strings.Count(text, "level=ERROR") != 2 ||
		!strings.Contains(text, "until it can be written\" seq=2 error=") || !strings.Contains(text, "until it can be written\" seq=3 error=") {
		t.Errorf("logged\n%s", text)
	}
}

// A file that cannot be opened is an error.
func TestFile_NotOpened(t *testing.T) {
	folder := t.TempDir()
	for name, file := range map[string]string{"a folder": folder, "nowhere": filepath.Join(folder, "no", "audit.log")} {
		if _, err := audit.New(file, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
