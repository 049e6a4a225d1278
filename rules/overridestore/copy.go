package overridestore

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fluxgate/fluxgate/rules"
)

// ruleSetCopy is the copy of the overrides of a rule set: a file to which changes are appended. The
// first line names the format and the rule set. Then come changes, each an override as JSON, and
// after each batch a line with the revision, the last forgotten deletion and a checksum of the batch.
// A batch without that line was cut off, and is ignored.
type ruleSetCopy struct {
	ruleSet, path string // the path is empty if no copy is kept
	revision      int64  // of the last batch; 0 if there is none
	forgotten     int64
	// lines are the changes in the file, and whole is how many there were when it was last written
	// as a whole.
	lines, whole int
	rules        map[string]bool // the ids of rules that have, or had, overrides
}

const (
	copyFormat   = "fluxgate overrides 1 "
	batchEnd     = "= "
	copyExt      = ".overrides.jsonl"
	maxLine      = 1 << 20 // longer than any override
	extraChanges = 2_000   // in a file, beside as many as there are overrides
)

// errDamaged is wrapped by errors about copies that cannot be read.
var errDamaged = errors.New("the copy of overrides is damaged")

func newCopy(folder, ruleSet string) *ruleSetCopy {
	c := &ruleSetCopy{ruleSet: ruleSet, rules: map[string]bool{}}
	if folder != "" {
		c.path = filepath.Join(folder, ruleSet+copyExt)
	}
	return c
}

// openCopies reads what copies a folder has.
func openCopies(folder string) (map[string]*ruleSetCopy, error) {
	copies := map[string]*ruleSetCopy{}
	entries, err := os.ReadDir(folder)
	if folder == "" || errors.Is(err, fs.ErrNotExist) {
		return copies, nil
	}
	var damaged []error
	for _, entry := range entries {
		id, ok := strings.CutSuffix(entry.Name(), copyExt)
		if !ok || !rules.ValidID(id) {
			continue
		}
		c := newCopy(folder, id)
		if wrong := c.read(func([]rules.Override) error { return nil }); wrong != nil {
			damaged = append(damaged, wrong)
			c = newCopy(folder, id) // it is written again
		}
		copies[id] = c
	}
	return copies, errors.Join(append(damaged, err)...)
}

// batch is changes as they are in a file.
func (c *ruleSetCopy) batch(changes []rules.Override, revision, forgotten int64) ([]byte, error) {
	var text bytes.Buffer
	for i := range changes {
		line, err := json.Marshal(changes[i])
		if err != nil {
			return nil, err
		}
		text.Write(append(line, '\n'))
	}
	end := fmt.Sprintf("%s%d %d", batchEnd, revision, forgotten)
	sum := crc32.Update(crc32.ChecksumIEEE(text.Bytes()), crc32.IEEETable, []byte(end))
	fmt.Fprintf(&text, "%s %08x\n", end, sum)
	return text.Bytes(), nil
}

// append appends changes up to a revision.
func (c *ruleSetCopy) append(changes []rules.Override, revision int64) (err error) {
	if c.path != "" {
		text, err := c.batch(changes, revision, c.forgotten)
		if err != nil {
			return err
		}
		file, err := os.OpenFile(c.path, os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = file.Write(text)
		if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
			return err
		}
	}
	c.note(changes, revision, c.forgotten)
	return nil
}

func (c *ruleSetCopy) note(changes []rules.Override, revision, forgotten int64) {
	for i := range changes {
		c.rules[changes[i].RuleID] = true
	}
	c.lines += len(changes)
	c.revision, c.forgotten = revision, forgotten
}

// long reports whether the file has so many former changes that it is to be written again.
func (c *ruleSetCopy) long() bool { return c.path != "" && c.lines > 2*c.whole+extraChanges }

// replace writes the file as a whole, with pages of all overrides at a revision.
func (c *ruleSetCopy) replace(revision int64, pages func(yield func([]rules.Override) error) error) (err error) {
	next := newCopy("", c.ruleSet)
	write := func([]byte) error { return nil }
	if c.path != "" {
		file, err := os.CreateTemp(filepath.Dir(c.path), ".overrides-*") // which only the owner can read
		if err != nil {
			return err
		}
		defer func() {
			err = errors.Join(err, file.Sync(), file.Close())
			if err == nil {
				err = os.Rename(file.Name(), c.path)
			}
			if err != nil {
				_ = os.Remove(file.Name())
				return
			}
			next.path, next.whole = c.path, next.lines
			*c = *next
		}()
		write = func(text []byte) error { _, err := file.Write(text); return err }
	}
	if err := write([]byte(copyFormat + c.ruleSet + "\n")); err != nil {
		return err
	}
	err = pages(func(page []rules.Override) error {
		text, err := c.batch(page, revision, revision) // deletions until then are not in it
		if err != nil {
			return err
		}
		next.note(page, revision, revision)
		return write(text)
	})
	if err == nil && c.path == "" {
		*c = *next
	}
	return err
}

// read reads the batches of the file. The file is untrusted input.
func (c *ruleSetCopy) read(use func([]rules.Override) error) error {
	file, err := os.Open(c.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	damaged := func(what string) error { return fmt.Errorf("%w: %s: %s", errDamaged, c.path, what) }
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	cutOff := func(what string) error { // the last line may be
		if lines.Scan() {
			return damaged(what)
		}
		return nil
	}
	if !lines.Scan() || lines.Text() != copyFormat+c.ruleSet {
		return damaged("its first line is not that of this rule set")
	}
	end := int64(len(lines.Bytes()) + 1)
	own := newCopy("", c.ruleSet)
	var batch []rules.Override
	var sum uint32
	length := int64(0)
	for lines.Scan() {
		line := append(lines.Bytes(), '\n')
		length += int64(len(line))
		if strings.HasPrefix(string(line), batchEnd) {
			revision, forgotten, err := parseBatchEnd(string(line), sum)
			if err != nil {
				if err := cutOff(err.Error()); err != nil {
					return err
				}
				break
			}
			if err := use(batch); err != nil {
				return err
			}
			own.note(batch, revision, forgotten)
			batch, sum, end, length = nil, 0, end+length, 0
			continue
		}
		var o rules.Override
		if json.Unmarshal(line, &o) != nil || o.RuleSetID != c.ruleSet || o.Revision < 1 || len(batch) == rules.MaxPage {
			if err := cutOff("a line cannot be read"); err != nil {
				return err
			}
			break
		}
		batch, sum = append(batch, o), crc32.Update(sum, crc32.IEEETable, line)
	}
	if err := lines.Err(); err != nil {
		return damaged(err.Error())
	}
	c.revision, c.forgotten, c.lines, c.whole, c.rules = own.revision, own.forgotten, own.lines, own.lines, own.rules
	if size, err := file.Seek(0, io.SeekEnd); err == nil && size > end {
		return os.Truncate(c.path, end) // so that the next batch follows a whole one
	}
	return nil
}

// parseBatchEnd parses the line after a batch with this checksum.
func parseBatchEnd(line string, sum uint32) (revision, forgotten int64, err error) {
	fields := strings.Split(strings.TrimSuffix(line, "\n"), " ")
	if len(fields) != 4 {
		return 0, 0, errors.New("wrong end of a batch")
	}
	sum = crc32.Update(sum, crc32.IEEETable, []byte(strings.Join(fields[:3], " ")))
	if fields[3] != fmt.Sprintf("%08x", sum) {
		return 0, 0, errors.New("wrong checksum")
	}
	revision, err = strconv.ParseInt(fields[1], 10, 64)
	if err == nil {
		forgotten, err = strconv.ParseInt(fields[2], 10, 64)
	}
	if err == nil && (revision < 1 || forgotten < 0) {
		err = errors.New("wrong revision")
	}
	return revision, forgotten, err
}
