package filerules

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Bounds of what is read.
const (
	maxFiles   = 1_000
	maxEntries = 100_000 // of a folder, whatever they are
	maxFile    = 16 << 20
	maxWhole   = 64 << 20
)

// found is a file as the folder shows it, links followed.
type found struct {
	name string // as errors show it
	info fs.FileInfo
}

// same reports whether the folder shows the same file with the same size and
// time. Its content may differ all the same.
func (f found) same(g found) bool {
	return f.name == g.name && f.info.Size() == g.info.Size() && f.info.ModTime().Equal(g.info.ModTime()) && os.SameFile(f.info, g.info)
}

// find lists the files with rules.
func find(path string) ([]found, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("looking for rules: %w", err)
	}
	if !info.IsDir() {
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("looking for rules: %s is neither a file nor a folder", path)
		}
		return []found{{path, info}}, nil
	}
	names, err := ruleFiles(path)
	if err != nil {
		return nil, err
	}
	var files []found
	for _, name := range names {
		name = filepath.Join(path, name)
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("looking for rules: %w", err)
		case info.IsDir():
			continue
		case !info.Mode().IsRegular():
			return nil, fmt.Errorf("looking for rules: %s is not a file", name)
		}
		files = append(files, found{name, info})
	}
	if len(files) > maxFiles {
		return nil, fmt.Errorf("looking for rules: %s has %d files, at most %d are read", path, len(files), maxFiles)
	}
	return files, nil
}

// ruleFiles are the names in a folder that say rules, in order.
func ruleFiles(path string) ([]string, error) {
	folder, err := os.Open(path) //nolint:gosec // the path is the operator's
	if err != nil {
		return nil, fmt.Errorf("looking for rules: %w", err)
	}
	defer folder.Close() //nolint:errcheck // nothing was written
	var names []string
	for seen := 0; ; {
		entries, err := folder.ReadDir(1_000)
		for _, e := range entries {
			if isRuleFile(e.Name()) {
				names = append(names, e.Name())
			}
		}
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return names, nil
		}
		if err != nil {
			return nil, fmt.Errorf("looking for rules: %w", err)
		}
		if seen += len(entries); seen > maxEntries {
			return nil, fmt.Errorf("looking for rules: %s has more than %d entries", path, maxEntries)
		}
	}
}

// isRuleFile leaves out hidden files, among them what editors keep beside the
// one that is edited, and the ..data of a ConfigMap.
func isRuleFile(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// content is what a file has in it.
type content struct {
	name    string
	data    []byte
	sum     [sha256.Size]byte
	changed time.Time
}

// snapshot is the content of all files.
type snapshot struct {
	files    []found // as they were before they were read
	contents []content
	at       time.Time
}

// same reports whether two snapshots have the same content.
func (s *snapshot) same(other *snapshot) bool {
	return slices.EqualFunc(s.contents, other.contents, func(a, b content) bool { return a.name == b.name && a.sum == b.sum })
}

// unmoved reports whether files that look like this must still have the same
// content: a change right after they were read could have left the time and
// the size as they were, so times must have been old by then.
func (s *snapshot) unmoved(files []found) bool {
	const coarsest = 2 * time.Second // of the clocks of file systems
	return slices.EqualFunc(s.files, files, func(a, b found) bool {
		return a.same(b) && a.info.ModTime().Before(s.at.Add(-coarsest))
	})
}

// read reads all files.
func read(path string) (*snapshot, error) {
	files, err := find(path)
	if err != nil {
		return nil, err
	}
	s := &snapshot{files: files, at: time.Now()}
	whole := 0
	for _, f := range files {
		c, err := readFile(f.name)
		if err != nil {
			return nil, err
		}
		if whole += len(c.data); whole > maxWhole {
			return nil, fmt.Errorf("reading rules: the files in %s have more than %d MiB together", path, maxWhole>>20)
		}
		s.contents = append(s.contents, c)
	}
	return s, nil
}

func readFile(name string) (content, error) {
	file, err := os.Open(name) //nolint:gosec // the path is the operator's
	if err != nil {
		return content{}, fmt.Errorf("reading rules: %w", err)
	}
	defer file.Close() //nolint:errcheck // nothing was written
	info, err := file.Stat()
	if err != nil {
		return content{}, fmt.Errorf("reading rules: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return content{}, fmt.Errorf("reading rules: %w", err)
	}
	if len(data) > maxFile {
		return content{}, fmt.Errorf("reading rules: %s has more than %d MiB", name, maxFile>>20)
	}
	return content{name: name, data: data, sum: sha256.Sum256(data), changed: info.ModTime()}, nil
}
