package cli

import (
	"archive/zip"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

const modulePath = "github.com/fluxgate/fluxgate"

// publish makes this tree the latest version of its module, for go commands with the
// environment that it returns. They see what a user gets: no other module of the tree, and
// no file that git ignores.
func publish(t *testing.T) (environ []string) {
	t.Helper()
	proxy, version := t.TempDir(), fmt.Sprintf("v0.0.0-docs.%d", time.Now().UnixNano())
	folder := filepath.Join(proxy, modulePath, "@v")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, folder, "list", version+"\n")
	write(t, folder, version+".info", fmt.Sprintf(`{"Version":%q}`, version))
	write(t, folder, version+".mod", readFile(t, "go.mod"))
	archive, err := os.Create(filepath.Join(folder, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	packed := zip.NewWriter(archive)
	for _, name := range moduleFiles(t) {
		file, err := packed.Create(modulePath + "@" + version + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.Write([]byte(readFile(t, name))); err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	cache := goEnv(t, "GOMODCACHE")
	t.Cleanup(func() {
		unpacked := filepath.Join(cache, modulePath+"@"+version)
		downloaded, _ := filepath.Glob(filepath.Join(cache, "cache", "download", modulePath, "@v", version+".*"))
		for _, name := range append(downloaded, unpacked) {
			if err := os.RemoveAll(name); err != nil {
				t.Error(err)
			}
		}
	})
	return []string{
		"GOPROXY=file://" + proxy + "," + goEnv(t, "GOPROXY"),
		"GONOSUMDB=" + modulePath, "GOFLAGS=-modcacherw", "GOWORK=off",
	}
}

// moduleFiles are the files of the tree that belong to its main module.
func moduleFiles(t *testing.T) (names []string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard")
	command.Dir = testenv.Root(t)
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Fields(string(out))
	others := map[string]bool{}
	for _, name := range all {
		if path.Base(name) == "go.mod" && name != "go.mod" {
			others[path.Dir(name)] = true
		}
	}
next:
	for _, name := range all {
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			if others[folder] {
				continue next
			}
		}
		if info, err := os.Lstat(filepath.Join(testenv.Root(t), name)); err == nil && info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	return names
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
