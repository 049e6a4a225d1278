// Command releasefiles writes what a release has beside its binaries: man pages,
// completion scripts, and the licences of the libraries in the binaries.
//
//	go run -C tools ./releasefiles ../bin/release 1.2.3 2026-11-16
package main

import (
	"bytes"
	"compress/gzip"
	"log"
	"os"
	"path/filepath"

	"github.com/fluxgate/fluxgate/internal/cli"
	"github.com/spf13/cobra"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: releasefiles FOLDER VERSION DATE")
	}
	files, err := contents(os.Args[2], os.Args[3])
	if err == nil {
		err = write(os.Args[1], files)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// contents returns the files by their names.
func contents(version, date string) (map[string][]byte, error) {
	root := cli.Commands(version)
	files, err := completions(root)
	if err != nil {
		return nil, err
	}
	for name, page := range manPages(root, version, date) {
		if files["man/"+name+".1.gz"], err = compress(page); err != nil {
			return nil, err
		}
	}
	files["licences.txt"], err = licences()
	return files, err
}

// completions returns the scripts of the command completion, under the names
// that the shells look for.
func completions(root *cobra.Command) (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, generate := range map[string]func(*bytes.Buffer) error{
		"fluxgate.bash": func(out *bytes.Buffer) error { return root.GenBashCompletionV2(out, true) },
		"_fluxgate":     func(out *bytes.Buffer) error { return root.GenZshCompletion(out) },
		"fluxgate.fish": func(out *bytes.Buffer) error { return root.GenFishCompletion(out, true) },
		"fluxgate.ps1":  func(out *bytes.Buffer) error { return root.GenPowerShellCompletionWithDesc(out) },
	} {
		var script bytes.Buffer
		if err := generate(&script); err != nil {
			return nil, err
		}
		files["completions/"+name] = script.Bytes()
	}
	return files, nil
}

// compress packs without a time, so that two builds give the same file.
func compress(text string) ([]byte, error) {
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = z.Write([]byte(text))
	}
	if err == nil {
		err = z.Close()
	}
	return packed.Bytes(), err
}

// write replaces the files of an earlier run, also the pages of commands that are gone.
func write(folder string, files map[string][]byte) error {
	for _, name := range []string{"man", "completions"} {
		if err := os.RemoveAll(filepath.Join(folder, name)); err != nil { //nolint:gosec // the folder that the caller names
			return err
		}
	}
	for name, data := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // for everyone to read
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil { //nolint:gosec // for everyone to read
			return err
		}
	}
	return nil
}
