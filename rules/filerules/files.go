package filerules

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Limits on input.
const (
	maxFiles = 10_000 // unless [Config.MaxFiles] is set
	maxFile  = 16 << 20
	maxTotal = 64 << 20
)

// maxEntries is how many entries of any kind a folder may have. A test lowers it.
var maxEntries = 100_000

// file is a rule file.
type file struct {
	name string      // as errors show it
	info fs.FileInfo // of the target of a link
	data []byte      // nil after parsing
	sum  [sha256.Size]byte
}

// sameContent and sameInfo compare two lists of files.
func sameContent(a, b []file) bool {
	return slices.EqualFunc(a, b, func(f, g file) bool { return f.name == g.name && f.sum == g.sum })
}

func sameInfo(a, b []file) bool {
	return slices.EqualFunc(a, b, func(f, g file) bool {
		return f.name == g.name && f.info.Size() == g.info.Size() && f.info.ModTime().Equal(g.info.ModTime()) && os.SameFile(f.info, g.info)
	})
}

// find lists the rule files by name, without their content.
func find(path string, c *Config) ([]file, error) {
	info, err := statWithin(path, c.Within)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []file{{name: path, info: info}}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	if len(entries) > maxEntries {
		return nil, fmt.Errorf("%s has more than %d entries: use a folder for rules only", path, maxEntries)
	}
	var files []file
	for _, e := range entries {
		if !isRuleFile(e.Name()) {
			continue
		}
		name := filepath.Join(path, e.Name())
		info, err := statWithin(name, c.Within)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, file{name: name, info: info})
		}
	}
	if most := cmp.Or(c.MaxFiles, maxFiles); len(files) > most {
		return nil, fmt.Errorf("%s has %d rule files, at most %d are read: put several rule sets into a file, "+
			"or raise the maximum (rules.max-rule-sets)", path, len(files), most)
	}
	return files, nil
}

// statWithin is [os.Stat] for a file that must be below a folder, if one is given.
func statWithin(name, within string) (fs.FileInfo, error) {
	if within == "" {
		return os.Stat(name)
	}
	target, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.EvalSymlinks(within)
	if err != nil {
		return nil, err
	}
	if below, err := filepath.Rel(folder, target); err != nil || !filepath.IsLocal(below) {
		return nil, fmt.Errorf("%s is a symbolic link to a file outside of %s", name, within)
	}
	return os.Stat(target)
}

// isRuleFile excludes hidden files, such as those of editors and the ..data of a
// ConfigMap.
func isRuleFile(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name)))
}

// snapshot has all files as of the time at.
type snapshot struct {
	files []file
	at    time.Time
}

// unchanged reports whether files with this metadata must still have the same
// content. A write just after the snapshot may keep time and size, so all times
// must be older than the time resolution of file systems.
func (s *snapshot) unchanged(files []file) bool {
	const coarsest = 2 * time.Second // time resolution of file systems
	recent := func(f file) bool { return !f.info.ModTime().Before(s.at.Add(-coarsest)) }
	return sameInfo(s.files, files) && !slices.ContainsFunc(files, recent)
}

// read reads all files.
func read(path string, c *Config) (*snapshot, error) {
	s := &snapshot{at: time.Now()}
	var err error
	if s.files, err = find(path, c); err != nil {
		return nil, fmt.Errorf("reading rules: %w", err)
	}
	total := 0
	for i := range s.files {
		f := &s.files[i]
		if f.data, err = readFile(f.name, f.info); err != nil {
			return nil, fmt.Errorf("reading rules: %w", err)
		}
		f.sum = sha256.Sum256(f.data)
		if total += len(f.data); total > maxTotal {
			return nil, fmt.Errorf("reading rules: the files in %s have more than %d MiB together", path, maxTotal>>20)
		}
	}
	return s, nil
}

func readFile(name string, info fs.FileInfo) ([]byte, error) {
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name) // a pipe could block
	}
	opened, err := os.Open(name) //nolint:gosec // the operator chooses the path
	if err != nil {
		return nil, err
	}
	defer opened.Close() //nolint:errcheck // nothing was written
	data, err := io.ReadAll(io.LimitReader(opened, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d MiB", name, maxFile>>20)
	}
	return data, err
}
