package reload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/fluxgate/fluxgate/rules"
)

// copies are the last good versions of rule sets, one file each. They have users
// and digests of API keys, so only the owner can read them.
type copies struct {
	root *os.Root // nil: none are kept
}

// copyFile is the content of a file.
type copyFile struct {
	RuleSetID string          `json:"ruleSetId"`
	Revision  int64           `json:"revision"`
	SHA256    string          `json:"sha256"` // of the document
	Document  json.RawMessage `json:"document"`
}

// maxCopy is more than the JSON of any rule set needs.
const maxCopy = 2 * rules.MaxDocument

func openCopies(folder string) (*copies, error) {
	if folder == "" {
		return &copies{}, nil
	}
	err := os.MkdirAll(folder, 0o700)
	var root *os.Root
	if err == nil {
		root, err = os.OpenRoot(folder)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the folder for copies: %w", err)
	}
	return &copies{root: root}, nil
}

// name returns the file name of a rule set. An id has no separators, and the
// extension prevents names such as "..".
func (c *copies) name(id string) string { return id + ".rules.json" }

// save writes a copy atomically.
func (c *copies) save(v *rules.Version) error {
	if c.root == nil {
		return nil
	}
	document, err := json.Marshal(v.RuleSet)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(document)
	text, err := json.Marshal(copyFile{
		RuleSetID: v.RuleSet.ID(), Revision: v.Revision, SHA256: hex.EncodeToString(sum[:]), Document: document,
	})
	if err != nil {
		return err
	}
	name := c.name(v.RuleSet.ID())
	// Two processes that share the folder must not share the file they write.
	temporary := fmt.Sprintf(".%s.%d", name, os.Getpid())
	if err := c.write(temporary, text); err != nil {
		_ = c.root.Remove(temporary)
		return err
	}
	return c.root.Rename(temporary, name)
}

func (c *copies) write(name string, text []byte) error {
	_ = c.root.Remove(name) // a killed process may have left one
	file, err := c.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// load reads a copy, or returns [fs.ErrNotExist] if there is none. The file is untrusted
// input.
func (c *copies) load(id string) (*rules.Version, error) {
	if c.root == nil {
		return nil, fs.ErrNotExist
	}
	info, err := c.root.Stat(c.name(id))
	if err == nil && info.Size() > maxCopy {
		err = errors.New("the file is too large")
	}
	if err != nil {
		return nil, err
	}
	var f copyFile
	text, err := c.root.ReadFile(c.name(id))
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if sum := sha256.Sum256(f.Document); err == nil && (f.RuleSetID != id || f.SHA256 != hex.EncodeToString(sum[:])) {
		err = errors.New("the file is damaged: wrong rule set id or checksum")
	}
	if err != nil {
		return nil, err
	}
	return rules.Decode(rules.Entry{RuleSetID: id, Head: rules.Head{Revision: f.Revision}}, f.Document)
}

// remove removes the copy of a deleted rule set.
func (c *copies) remove(id string) {
	if c.root != nil {
		_ = c.root.Remove(c.name(id)) // a remaining copy is not used, because the source reports the deletion
	}
}

func (c *copies) close() {
	if c.root != nil {
		_ = c.root.Close()
	}
}
