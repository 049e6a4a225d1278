package audit

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// file is the audit file. A record is a line.
type file struct {
	name string
	to   *os.File // nil if it is closed
	info os.FileInfo
	torn bool // the last line has no end
}

// open opens the file and closes the former one.
func (f *file) open() error {
	// Opening a pipe would wait for its other end.
	if info, err := os.Stat(f.name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", f.name)
	}
	to, err := os.OpenFile(f.name, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := to.Stat()
	if err != nil {
		return errors.Join(err, to.Close())
	}
	torn, err := endsTorn(to)
	if err != nil {
		return errors.Join(err, to.Close())
	}
	_ = f.close() // everything was written
	f.to, f.info, f.torn = to, info, torn
	return nil
}

// endsTorn reports whether a file ends in the middle of a line, and still does a
// moment later: another server may be writing the rest of it.
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

// write appends lines in one write. An incomplete line stays a line of its own.
func (f *file) write(lines []byte) error {
	if f.to == nil {
		return os.ErrClosed
	}
	// The file may have been moved or deleted.
	if there, err := os.Stat(f.name); err != nil || !os.SameFile(there, f.info) {
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
