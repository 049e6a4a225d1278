package reload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/fluxgate/fluxgate/rules"
)

// copies is the folder of the last good versions of rule sets, one file each. Empty means that
// none are kept. They have users and digests of API keys, so only the owner can read them.
type copies string

// copyFile is the content of a file.
type copyFile struct {
	RuleSetID string          `json:"ruleSetId"`
	Revision  int64           `json:"revision"`
	SHA256    string          `json:"sha256"` // of the document
	Document  json.RawMessage `json:"document"`
}

// maxCopy is more than the JSON of any rule set needs.
const maxCopy = 2 * rules.MaxDocument

// create creates the folder.
func (c copies) create() error {
	if c == "" {
		return nil
	}
	return os.MkdirAll(string(c), 0o700)
}

// path returns the file of a rule set. An id has no separators, and the extension prevents
// names such as "..".
func (c copies) path(id string) string { return filepath.Join(string(c), id+".rules.json") }

// save writes a copy atomically.
func (c copies) save(v *rules.Version) error {
	if c == "" {
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
	file, err := os.CreateTemp(string(c), ".copy-*") // which only the owner can read
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), c.path(v.RuleSet.ID()))
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}

// load reads a copy, or returns [fs.ErrNotExist] if there is none. The file is untrusted
// input.
func (c copies) load(id string) (*rules.Version, error) {
	if c == "" {
		return nil, fs.ErrNotExist
	}
	info, err := os.Stat(c.path(id))
	if err == nil && info.Size() > maxCopy {
		err = errors.New("the file is too large")
	}
	if err != nil {
		return nil, err
	}
	var f copyFile
	text, err := os.ReadFile(c.path(id))
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
func (c copies) remove(id string) {
	if c != "" {
		_ = os.Remove(c.path(id)) // a remaining copy is not used, because the source reports the deletion
	}
}
