package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// shellBlocks are the sh blocks under a heading of docs/install.md.
func shellBlocks(t *testing.T, heading string) (blocks []string) {
	t.Helper()
	for _, block := range shellBlock.FindAllStringSubmatch(section(t, "docs/install.md", heading), -1) {
		blocks = append(blocks, block[2])
	}
	if len(blocks) == 0 {
		t.Fatalf("docs/install.md has no commands under %q", heading)
	}
	return blocks
}

// fakeHost runs the documented commands on a folder: curl copies from the folder
// of a release, and sudo writes below another folder than /usr/local.
const fakeHost = `set -euo pipefail
curl() { local url="${!#}"; cp "$FILES/${url##*/}" .; }
sudo() { "${@//\/usr\/local/$PREFIX}"; }
PATH="$PREFIX/bin:$PATH"
mkdir -p "$PREFIX/bin"
`

// The documented commands install an archive: a folder of its name, with the files
// that .goreleaser.yaml puts there. A download that was changed is refused.
func TestInstall_Archive(t *testing.T) {
	testenv.SkipShort(t)
	files, prefix := t.TempDir(), t.TempDir()
	const name = "fluxgate_0.1.0_linux_amd64"
	for _, folder := range []string{"completions", "man"} {
		if err := os.MkdirAll(filepath.Join(files, name, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"completions/fluxgate.bash", "completions/_fluxgate", "completions/fluxgate.fish", "man/fluxgate.1.gz"} {
		write(t, filepath.Join(files, name), file, file)
	}
	shell := func(folder, script string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", fakeHost+script)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "FILES="+files, "PREFIX="+prefix, "PROGRAM="+testenv.Fluxgate(t))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := shell(files, `cp "$PROGRAM" `+name+`/fluxgate && tar czf `+name+`.tar.gz `+name+` && sha256sum *.tar.gz > checksums.txt`); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	documented := strings.Join(shellBlocks(t, "Archive"), "\n")
	out, err := shell(t.TempDir(), documented)
	if err != nil || !strings.Contains(out, name+".tar.gz: OK\nfluxgate ") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, installed := range []string{"bin/fluxgate", "share/bash-completion/completions/fluxgate", "share/zsh/site-functions/_fluxgate", "share/fish/vendor_completions.d/fluxgate.fish", "share/man/man1/fluxgate.1.gz"} {
		if _, err := os.Stat(filepath.Join(prefix, installed)); err != nil {
			t.Error(err)
		}
	}
	if out, err := shell(files, "echo changed >> "+name+".tar.gz"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := shell(t.TempDir(), documented); err == nil || !strings.Contains(out, name+".tar.gz: FAILED") {
		t.Errorf("a changed archive is installed: %v\n%s", err, out)
	}
}

// Every command of the page is valid shell, and what the image runs exists:
// TestDocs_Commands sees calls of fluxgate only.
func TestInstall_Commands(t *testing.T) {
	found := 0
	for _, heading := range []string{"Archive", "Debian package", "Container image", "Helm chart", "Go", "Source"} {
		for _, block := range shellBlocks(t, heading) {
			if out, err := exec.CommandContext(t.Context(), "bash", "-n", "-c", block).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", heading, err, out)
			}
			for _, call := range regexp.MustCompile(`(?m)^  (serve .*)$`).FindAllStringSubmatch(block, -1) {
				found++
				if err := parseCommand(strings.Fields(call[1])); err != nil {
					t.Errorf("%s: %v", call[0], err)
				}
			}
		}
	}
	if found != 1 {
		t.Errorf("found %d arguments of the image, want 1", found)
	}
	if !strings.Contains(readFile(t, "docs/install.md"), "fluxgate/cmd/fluxgate@latest") {
		t.Error("go install does not name cmd/fluxgate")
	}
}
