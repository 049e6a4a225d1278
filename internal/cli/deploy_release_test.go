package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/config"
	"go.yaml.in/yaml/v3"
)

// releaseFile is a file that goreleaser packs.
type releaseFile struct {
	Src, Dst, Type string
	Info           struct{ Mode uint32 } `yaml:"file_info"`
}

// releaseConfig is what the tests read of .goreleaser.yaml.
type releaseConfig struct {
	Builds []struct {
		Main           string
		Flags, Ldflags []string
	}
	Archives []struct{ Files []releaseFile }
	Nfpms    []struct {
		Scripts  map[string]string
		Contents []releaseFile
	}
	Dockers []struct {
		BuildArgs map[string]string `yaml:"build_args"`
	} `yaml:"dockers_v2"`
}

func readRelease(t *testing.T) releaseConfig {
	t.Helper()
	var c releaseConfig
	if err := yaml.Unmarshal([]byte(readFile(t, ".goreleaser.yaml")), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Builds) != 1 || len(c.Archives) != 1 || len(c.Nfpms) != 1 || len(c.Dockers) != 1 {
		t.Fatalf("want one of each: %+v", c)
	}
	return c
}

// What a release packs exists; bin/release is written by tools/releasefiles.
func TestRelease_FilesExist(t *testing.T) {
	c := readRelease(t)
	sources := []string{c.Builds[0].Main}
	for _, file := range append(c.Archives[0].Files, c.Nfpms[0].Contents...) {
		sources = append(sources, file.Src)
	}
	for _, script := range c.Nfpms[0].Scripts {
		sources = append(sources, script)
		if out, err := exec.CommandContext(t.Context(), "sh", "-n", "../../"+script).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	for _, source := range sources {
		if found, err := filepath.Glob("../../" + source); err != nil || len(found) == 0 && !strings.HasPrefix(source, "bin/release/") {
			t.Errorf("%s does not exist: %v", source, err)
		}
	}
}

// Binaries of a release are built as in the Dockerfile, which then packs them.
func TestRelease_SameBuildAsImage(t *testing.T) {
	c, dockerfile := readRelease(t), readFile(t, "Dockerfile")
	flags := strings.ReplaceAll(strings.Join(c.Builds[0].Ldflags, " "), "{{ .Version }}", "${VERSION}")
	build := "go build " + strings.Join(c.Builds[0].Flags, " ") + ` -ldflags "` + flags + `" -o /fluxgate ` + c.Builds[0].Main + "\n"
	if !strings.Contains(dockerfile, build) {
		t.Errorf("the Dockerfile does not have\n%s", build)
	}
	if !strings.Contains(dockerfile, " AS "+c.Dockers[0].BuildArgs["BINARY"]+"\n") {
		t.Errorf("the Dockerfile has no stage for BINARY in %v", c.Dockers[0].BuildArgs)
	}
}

// The package has the files that the unit names. Only root can read the configuration.
func TestDeb_UnitFiles(t *testing.T) {
	modes := map[string]uint32{"/usr/bin/fluxgate": 0o755}
	for _, file := range readRelease(t).Nfpms[0].Contents {
		modes[file.Dst] = file.Info.Mode
		if strings.HasPrefix(file.Dst, "/etc/") != (file.Type == "config|noreplace") {
			t.Errorf("%s has the type %q: changes to files in /etc are kept, other files are replaced", file.Dst, file.Type)
		}
	}
	for name, mode := range map[string]uint32{"/etc/fluxgate/fluxgate.yaml": 0o600, "/etc/fluxgate/rules.yaml": 0o644, "/usr/lib/systemd/system/fluxgate.service": 0o644} {
		if modes[name] != mode {
			t.Errorf("%s has the mode %o, want %o", name, modes[name], mode)
		}
	}
	for _, name := range []string{"LoadCredential=fluxgate.yaml:/etc/fluxgate/fluxgate.yaml", "ExecStart=/usr/bin/fluxgate "} {
		if !strings.Contains(readFile(t, unitFile), name) {
			t.Errorf("the unit has no %s", name)
		}
	}
}

// The configuration of the package works as it is, and on this machine only.
func TestDeb_Configuration(t *testing.T) {
	const file, rules = "../../deploy/deb/fluxgate.yaml", "../../deploy/deb/rules.yaml"
	c, err := config.Load(config.Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if c.Rules.File != "/etc/fluxgate/rules.yaml" || c.Server.HTTP != "127.0.0.1:8080" || c.Server.Admin != "127.0.0.1:9090" {
		t.Errorf("%+v, %+v", c.Rules, c.Server)
	}
	code, out, errs := call(t, "doctor", "--config", file, "--set", "rules.file="+rules, "--set", "rules.copies="+t.TempDir(),
		"--set", "server.http="+testenv.FreeAddr(t), "--set", "server.admin="+testenv.FreeAddr(t))
	if code != exitOK {
		t.Errorf("doctor: exit code %d\n%s%s", code, out, errs)
	}
}

// The notes of a release are its section of the changelog; a version that is not
// there is an error.
func TestReleaseNotes(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, ".ci"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, folder, "CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- later\n\n## 1.2.0 - 2026-11-16\n\n### Added\n\n- this\n\n## 1.1.0\n\n- before\n")
	write(t, folder, ".ci/release-notes", readFile(t, ".ci/release-notes"))
	for version, want := range map[string]string{"v1.2.0": "\n### Added\n\n- this\n", "v1.1.0": "\n- before\n", "v1.3.0": ""} {
		out, err := exec.CommandContext(t.Context(), "bash", folder+"/.ci/release-notes", version).Output()
		if string(out) != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v", version, out, err)
		}
	}
}
