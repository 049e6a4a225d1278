package audit

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// file is where records go, line by line.
type file struct {
	name string
	to   *os.File // nil if it is closed
	is   os.FileInfo
	torn bool // its last line has no end
}

// open opens the file, in place of the one that was.
func (f *file) open() error {
	// Opening what is not a file may wait for somebody at the other end.
	if info, err := os.Stat(f.name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", f.name)
	}
	to, err := os.OpenFile(f.name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	is, err := to.Stat()
	if err != nil {
		return errors.Join(err, to.Close())
	}
	torn, err := endsTorn(to)
	if err != nil {
		return errors.Join(err, to.Close())
	}
	_ = f.close() // everything was written
	f.to, f.is, f.torn = to, is, torn
	return nil
}

// endsTorn reports whether a file ends in the middle of a line, and still does
// a moment later: another server may be about to write the rest of it.
func endsTorn(file *os.File) (bool, error) {
	for range 5 {
		info, err := file.Stat()
		if err != nil || info.Size() == 0 {
			return false, err
		}
		var last [1]byte
		if _, err := file.ReadAt(last[:], info.Size()-1); err != nil || last[0] == '\n' {
			return false, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true, nil
}

// write adds lines in one write. What was broken off is left as a line of its
// own.
func (f *file) write(lines []byte) error {
	if f.to == nil {
		return os.ErrClosed
	}
	// What goes to a file that has no name any more nobody will read.
	if there, err := os.Stat(f.name); err != nil || !os.SameFile(there, f.is) {
		if err := f.open(); err != nil {
			return err
		}
	}
	if f.torn {
		lines = append([]byte{'\n'}, lines...)
	}
	n, err := f.to.Write(lines)
	if n > 0 {
		f.torn = lines[n-1] != '\n'
	}
	return err
}

func (f *file) close() error {
	if f.to == nil {
		return nil
	}
	err := f.to.Close()
	f.to = nil
	return err
}
