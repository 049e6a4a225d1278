package testenv

import (
	_ "embed" // the source of the preloaded library
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed clock/clock.c
var clockSource []byte

// StepClock sets the wall clock of the server to that of the machine plus an offset. It
// needs [Config.SteppedClock].
func (s *Server) StepClock(offset time.Duration) error {
	if !s.Owned() {
		return ErrNotOwned
	}
	if !s.group.cfg.SteppedClock {
		return errors.New("testenv: the server was started without SteppedClock")
	}
	file, err := os.OpenFile(s.clockFile(), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	// In place, because the server has mapped the file.
	_, err = file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(offset.Microseconds())), 0)
	return errors.Join(err, file.Close())
}

func (s *Server) clockFile() string { return filepath.Join(s.dir, "clock") }

// clockEnviron builds the library that changes the clock, and returns the variables that
// preload it.
func (s *Server) clockEnviron() ([]string, error) {
	library := filepath.Join(s.dir, "clock.so")
	if _, err := os.Stat(library); err != nil {
		source := filepath.Join(s.dir, "clock.c")
		if err := os.WriteFile(source, clockSource, 0o600); err != nil {
			return nil, err
		}
		if out, err := exec.Command("gcc", "-O2", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the library for SteppedClock with gcc: %w\n%s", err, out)
		}
	}
	if err := os.WriteFile(s.clockFile(), make([]byte, 8), 0o600); err != nil {
		return nil, err
	}
	return []string{"LD_PRELOAD=" + library, "TESTENV_CLOCK=" + s.clockFile()}, nil
}
