// Package memlimit finds how much memory a process may use, and has the Go runtime
// keep below it: without a limit a collection may come too late, and the kernel
// ends the process.
package memlimit

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// Set sets the soft limit of the Go runtime to 70 % of the memory of the container
// or machine. The rest is for memory that the runtime does not count, and for what
// requests allocate while garbage is being collected on a busy machine. The
// environment variable GOMEMLIMIT overrides it. Where the memory is not known, as
// on systems without /proc, there is no limit.
func Set() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	if memory, ok := available(os.DirFS("/")); ok {
		debug.SetMemoryLimit(Of(memory))
	}
}

// Of is the limit for so many bytes of memory.
func Of(memory int64) int64 { return memory / 10 * 7 }

// Current returns the limit in effect. It is false if there is none.
func Current() (bytes int64, ok bool) {
	limit := debug.SetMemoryLimit(-1) // a negative limit changes nothing
	return limit, limit != math.MaxInt64
}

// available returns the memory that a process may use, in bytes: the least of the
// machine's and of the limits of its control groups.
func available(root fs.FS) (bytes int64, ok bool) {
	bytes = math.MaxInt64
	for line := range strings.Lines(read(root, "proc/meminfo")) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			if kB, err := strconv.ParseInt(fields[1], 10, 64); err == nil && kB > 0 && kB < math.MaxInt64>>10 {
				bytes = kB << 10
			}
		}
	}
	for line := range strings.Lines(read(root, "proc/self/cgroup")) {
		// hierarchy:controllers:path. Version 2 has hierarchy 0 and no
		// controllers.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		switch {
		case fields[0] == "0" && fields[1] == "":
			bytes = min(bytes, groupLimit(root, "sys/fs/cgroup", fields[2], "memory.max"))
		case strings.Contains(","+fields[1]+",", ",memory,"):
			bytes = min(bytes, groupLimit(root, "sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes"))
		}
	}
	return bytes, bytes != math.MaxInt64
}

// groupLimit returns the least limit of a control group and the groups that contain
// it. In a container the path may be that of the host, where only the topmost
// group can be read: it is the container's.
func groupLimit(root fs.FS, mount, group, file string) int64 {
	least := int64(math.MaxInt64)
	for group = path.Join("/", group); ; group = path.Dir(group) {
		text := strings.TrimSpace(read(root, path.Join(mount, group, file)))
		if limit, err := strconv.ParseInt(text, 10, 64); err == nil && limit > 0 { // else it is "max", or missing
			least = min(least, limit)
		}
		if group == "/" {
			return least
		}
	}
}

// maxFile is more than any of the files has.
const maxFile = 64 << 10

// read returns the content of a file, or what could be read of it.
func read(root fs.FS, name string) string {
	file, err := root.Open(name)
	if err != nil {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err = errors.Join(err, file.Close()); err != nil {
		return ""
	}
	return string(text)
}
