package simulate

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"fmt"
	"io"
)

// compression is a format of compressed files.
type compression struct {
	name  string
	magic string // what its files begin with
	// reader unpacks a file, of one or more members. It is nil if the format is not read.
	reader func(io.Reader) (io.Reader, error)
}

// compressions are those of rotated logs, and others that are not text.
var compressions = []compression{
	{"gzip", "\x1f\x8b", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
	{"bzip2", "BZh", func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil }},
	{"zstd", "\x28\xb5\x2f\xfd", nil},
	{"xz", "\xfd7zXZ\x00", nil},
	{"lz4", "\x04\x22\x4d\x18", nil},
	{"zip", "PK\x03\x04", nil},
	{"compress", "\x1f\x9d", nil},
}

// longestMagic is how much of a log tells its format.
const longestMagic = 6

// unpack returns the text of a log. What it begins with tells how it is compressed: rotated files
// have all kinds of names. It unpacks as much as is read, so the memory does not depend on the
// length of the text.
func unpack(r io.Reader) (io.Reader, error) {
	in := bufio.NewReaderSize(r, bufferSize)
	begin, _ := in.Peek(longestMagic) // an error comes again when it is read
	for _, c := range compressions {
		switch {
		case !bytes.HasPrefix(begin, []byte(c.magic)):
		case c.reader == nil:
			return nil, fmt.Errorf("it is compressed with %s, which is not read: unpack it, and pass the text with --log -", c.name)
		default:
			unpacked, err := c.reader(in)
			if err != nil {
				return nil, fmt.Errorf("unpacking %s: %w", c.name, err)
			}
			return unpacked, nil
		}
	}
	return in, nil
}
