package memlimit

import (
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"
)

// The memory is the least of the machine's and of the limits of the control groups
// of both versions.
func TestAvailable(t *testing.T) {
	const meminfo = "MemTotal:        4194304 kB\nMemFree:          100 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64 // 0: not known
	}{
		"no files":        {nil, 0},
		"machine":         {map[string]string{"proc/meminfo": meminfo}, 4 << 30},
		"malformed":       {map[string]string{"proc/meminfo": "MemTotal: much kB\nMemTotal:\n", "proc/self/cgroup": "0\n::\n"}, 0},
		"overflow":        {map[string]string{"proc/meminfo": "MemTotal: 9223372036854775807 kB\n"}, 0},
		"v2 container":    {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "536870912\n"}, 512 << 20},
		"v2 without":      {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 4 << 30},
		"v2 no meminfo":   {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1048576\n"}, 1 << 20},
		"v2 outer group":  {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b/c\n", "sys/fs/cgroup/a/b/c/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1048576\n"}, 1 << 20},
		"v2 inner group":  {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1048576\n", "sys/fs/cgroup/a/memory.max": "2097152\n"}, 1 << 20},
		"v2 outside":      {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../../x\n", "sys/fs/cgroup/memory.max": "1048576\n"}, 1 << 20},
		"v2 above":        {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "8589934592\n"}, 4 << 30},
		"v1 group":        {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "5:cpu:/x\n4:memory:/docker/1\n", "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "1048576\n"}, 1 << 20},
		"v1 container":    {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "4:hugetlb,memory:/docker/1\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "1048576\n"}, 1 << 20},
		"v1 without":      {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 4 << 30},
		"zero and less":   {map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "0\n", "sys/fs/cgroup/memory.max": "-1\n"}, 4 << 30},
		"endless meminfo": {map[string]string{"proc/meminfo": strings.Repeat("x", 1<<20) + "\n" + meminfo}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for file, text := range c.files {
				root[file] = &fstest.MapFile{Data: []byte(text)}
			}
			got, ok := available(root)
			if ok != (c.want != 0) || ok && got != c.want {
				t.Errorf("%d, %t; want %d", got, ok, c.want)
			}
		})
	}
}

// GOMEMLIMIT wins; without it a machine that has /proc has a limit.
func TestSet(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	t.Setenv("GOMEMLIMIT", "off")
	Set()
	if limit, ok := Current(); ok {
		t.Errorf("GOMEMLIMIT=off, and a limit of %d", limit)
	}
	if _, err := os.Stat("/proc/meminfo"); err != nil {
		t.Skip("no /proc")
	}
	if err := os.Unsetenv("GOMEMLIMIT"); err != nil {
		t.Fatal(err)
	}
	Set()
	if limit, ok := Current(); !ok || limit < 1<<20 {
		t.Errorf("limit %d, %t", limit, ok)
	}
}
