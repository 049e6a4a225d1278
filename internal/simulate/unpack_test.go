package simulate

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// zipped is a gzip file with a member for each text.
func zipped(t *testing.T, texts ...string) string {
	t.Helper()
	var b bytes.Buffer
	for _, text := range texts {
		w := gzip.NewWriter(&b)
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// What a log begins with tells whether it is unpacked, also if it is read byte by byte.
func TestUnpack(t *testing.T) {
	bzipped, err := base64.StdEncoding.DecodeString("QlpoOTFBWSZTWXgTwIIAAAHBAAAQAgGgACGaaDNNDLxdyRThQkHgTwIIQlpoOTFBWSZTWS63GtcAAAFBgAAQAACEgCAAIZpoM00HPF3JFOFCQLrca1w=") // two members
	if err != nil {
		t.Fatal(err)
	}
	whole := zipped(t, "one\n", "two\n")
	for _, c := range []struct{ name, log, want, fails string }{
		{"nothing", "", "", ""},
		{"a short text", "one\n", "one\n", ""},
		{"a text", "192.0.2.1 - - [16/Nov/2026:15:00:00 +0000]", "192.0.2.1 - - [16/Nov/2026:15:00:00 +0000]", ""},
		{"gzip", zipped(t, "one\n"), "one\n", ""},
		{"gzip of several members", whole, "one\ntwo\n", ""},
		{"gzip of nothing", zipped(t, ""), "", ""},
		{"gzip that is cut", whole[:len(whole)-3], "one\ntwo\n", "unexpected EOF"},
		{"gzip and something else", whole + "something else", "one\ntwo\n", "invalid header"},
		{"gzip in gzip", zipped(t, zipped(t, "one\n")), zipped(t, "one\n"), ""},
		{"no more than the magic number of gzip", "\x1f\x8b", "", "unpacking gzip: unexpected EOF"},
		{"bzip2", string(bzipped), "one\ntwo\n", ""},
		{"bzip2 that is cut", string(bzipped[:20]), "", "unexpected EOF"},
		{"zstd", "\x28\xb5\x2f\xfd\x04\x00", "", "it is compressed with zstd, which is not read"},
		{"xz", "\xfd7zXZ\x00\x00", "", "it is compressed with xz"},
		{"zip", "PK\x03\x04\x14\x00", "", "it is compressed with zip"},
	} {
		for name, in := range map[string]io.Reader{"at once": strings.NewReader(c.log), "byte by byte": iotest.OneByteReader(strings.NewReader(c.log))} {
			var got []byte
			out, err := unpack(in)
			if err == nil {
				got, err = io.ReadAll(out)
			}
			if (c.fails == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fails) || !strings.HasPrefix(c.want, string(got)) ||
				err == nil && string(got) != c.want {
				t.Errorf("%s, %s: %q, %v", c.name, name, got, err)
			}
		}
	}
	if _, err := unpack(iotest.ErrReader(io.ErrNoProgress)); err != nil {
		t.Errorf("an error that reading returns again: %v", err)
	}
}

// A small file may unpack to any length: no more than a line of it is in memory.
func TestUnpack_Bomb_NoRace(t *testing.T) {
	const megabytes = 64
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	for range megabytes {
		_, _ = w.Write(make([]byte, 1<<20)) // without a line end
	}
	_ = w.Close()
	out, err := unpack(&bomb)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l := newLineReader(out)
	_, err = l.next()
	runtime.ReadMemStats(&after)
	if !errors.Is(err, errLong) {
		t.Errorf("the line: %v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 2<<20 {
		t.Errorf("%d MB took %d bytes", megabytes, used)
	}
}
