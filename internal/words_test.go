package internal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// identifiers are names that say too little, with better ones. They may not be
// declared anywhere.
var identifiers = map[string]string{
	"making": "evaluation", "made": "evaluation, or what was made",
	"Told": "NewDecision", "told": "remote",
	"standIn": "applyFailureModes", "takeLocally": "takeFromFallback",
	"Least": "MergeSettlements", "weigh": "bucketmath",
	"ask": "shardRequest, or the verb for what it does", "question": "scriptCall", "lane": "nodeQueue",
	"turns": "keyedMutex", "takeIn": "importEdits", "survey": "classify", "ground": "base", "roll": "syncDocuments", "Mender": "Reconciler",
	"Office": "Issuer", "office": "issuer", "seldom": "logThrottle", "strangers": "anonymousThrottle", "where": "target, or what it locates",
	"works": "scratch", "lent": "retained", "may": "allowed", "notTheirs": "forbidden",
}

// phrases are words and sentences that a reader has to read twice. They may
// not be in messages, comments or documentation.
var phrases = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`\btold\b`, `\bstands\b`, `\bnobody\b`, `\bwhoever\b`, `\bnameless\b`, `\bstrangers\b`, `\bseldom\b`,
	`decided by what holds`, `store was not asked`, `makes sense`, `in a wrong way`, `asks nobody`,
	`may nothing`, `for the next who`, `behind the closing brace`, `must be a text`, `takes nobody`, `the house on one page`,
}, "|"))

// exempt are files that quote the words: this list, and the history of changes.
var exempt = map[string]bool{"internal/words_test.go": true, "CHANGELOG.md": true}

// Names, comments, messages and documentation use plain words: the lists above
// have what readers stumbled over.
func TestPlainWords_NoRace(t *testing.T) {
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != "." || entry.Name() == "node_modules" || path == "bin"):
			return filepath.SkipDir
		case exempt[path]:
		case strings.HasSuffix(path, ".go"):
			checkGo(t, path)
		case strings.HasSuffix(path, ".md"), strings.HasSuffix(path, ".lua"), strings.HasSuffix(path, ".yaml"), strings.HasSuffix(path, ".yml"):
			text, err := fs.ReadFile(root, path)
			checkText(t, path, 1, string(text))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkGo(t *testing.T, path string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "../"+path, nil, parser.ParseComments)
	if err != nil {
		t.Error(err)
		return
	}
	line := func(at token.Pos) int { return files.Position(at).Line }
	for _, group := range file.Comments {
		checkText(t, path, line(group.Pos()), group.Text())
	}
	var visit func(ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if n.Kind == token.STRING && !strings.HasSuffix(path, "_test.go") {
				checkText(t, path, line(n.Pos()), n.Value)
			}
		case *ast.Ident:
			if better := identifiers[n.Name]; better != "" {
				t.Errorf("%s:%d: identifier %q: use %s", path, line(n.Pos()), n.Name, better)
			}
		case *ast.SelectorExpr: // n.Sel is declared elsewhere
			ast.Inspect(n.X, visit)
			return false
		}
		return true
	}
	ast.Inspect(file, visit)
}

func checkText(t *testing.T, path string, first int, text string) {
	t.Helper()
	for i, line := range strings.Split(text, "\n") {
		if found := phrases.FindString(line); found != "" {
			t.Errorf("%s:%d: %q is not plain: see \"Plain words\" in CONTRIBUTING.md", path, first+i, found)
		}
	}
}
