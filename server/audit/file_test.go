package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/server/audit"
)

func TestReloadFollowsAFileThatWasMovedAway(t *testing.T) {
	folder := t.TempDir()
	file, moved := filepath.Join(folder, "audit.log"), filepath.Join(folder, "audit.log.1")
	log := open(t, audit.Config{File: file})
	write := func() {
		t.Helper()
		if err := log.Write(t.Context(), change(1)); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if err := os.Rename(file, moved); err != nil {
		t.Fatal(err)
	}
	write() // to where the file is now
	if err := log.Reload(); err != nil {
		t.Fatal(err)
	}
	write()
	if a, b := len(lines(t, moved)), len(lines(t, file)); a != 2 || b != 1 {
		t.Errorf("%d lines were moved away and %d are here", a, b)
	}
	// What cannot be opened changes nothing.
	if err := os.Rename(file, moved); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := log.Reload(); err == nil {
		t.Error("a folder was opened")
	}
	write()
	if n := len(lines(t, moved)); n != 2 || log.Broken() != nil {
		t.Errorf("%d lines, broken: %v", n, log.Broken())
	}
}

func TestALineThatWasBrokenOffStaysAlone(t *testing.T) {
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

func TestAFileThatCannotBeOpenedIsAnError(t *testing.T) {
	folder := t.TempDir()
	for name, config := range map[string]audit.Config{
		"a folder": {File: folder}, "nowhere": {File: filepath.Join(folder, "no", "audit.log")}, "a device": {File: os.DevNull}, "negative": {Keep: -1},
	} {
		if log, err := audit.New(config); err == nil {
			t.Errorf("%s: no error", name)
			_ = log.Close()
		}
	}
}

func TestAClosedLogIsBroken(t *testing.T) {
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
