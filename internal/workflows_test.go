package internal

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// workflow is what the tests read of a workflow of GitHub.
type workflow struct {
	Permissions map[string]string
	Concurrency struct{ Group string }
	Jobs        map[string]struct {
		Permissions map[string]string
		Timeout     int `yaml:"timeout-minutes"`
		Defaults    struct{ Run runPlace }
		Steps       []struct {
			runPlace `yaml:",inline"`
			Uses     string
			Run      string
			With     map[string]any
		}
	}
}

type runPlace struct {
	Folder string `yaml:"working-directory"`
}

func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile("../" + name)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

var (
	makeCommand = regexp.MustCompile(`(?m)(?:^|[;&] *)make((?: [a-z-]+)+)`)
	makeTarget  = regexp.MustCompile(`(?m)^([a-z-]+):`)
	usesAction  = regexp.MustCompile(`(?m)^.*\buses:.*$`)
	pinned      = regexp.MustCompile(`^[ -]*uses: (?:\./\.github/actions/[\w-]+|([\w.-]+/[\w.-]+)[\w./-]*@([0-9a-f]{40} # v\d+\.\d+\.\d+))$`)
	pathWord    = regexp.MustCompile(`[\w.-]+(/[\w.-]+)+`)
)

// Workflows name targets, scripts and folders that exist, and grant write permissions
// to single jobs only.
func TestWorkflows(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := makeTarget.FindAllStringSubmatch(string(makefile), -1)
	names, err := filepath.Glob("../.github/workflows/*")
	if err != nil || len(names) < 2 {
		t.Fatalf("%v: %v", names, err)
	}
	for _, name := range names {
		name = strings.TrimPrefix(name, "../")
		var w workflow
		readYAML(t, name, &w)
		for _, level := range w.Permissions {
			if level == "write" {
				t.Errorf("%s: grant write permissions to single jobs", name)
			}
		}
		if w.Permissions == nil || w.Concurrency.Group == "" || len(w.Jobs) == 0 {
			t.Errorf("%s has no permissions, concurrency or jobs", name)
		}
		for id, job := range w.Jobs {
			report := func(format string, args ...any) {
				t.Helper()
				t.Errorf("%s: job %s: %s", name, id, fmt.Sprintf(format, args...))
			}
			if job.Timeout == 0 || len(job.Steps) == 0 {
				report("no timeout or no steps")
			}
			paths := []string{job.Defaults.Run.Folder}
			for _, step := range job.Steps {
				if strings.Contains(step.Run, "${{") {
					report("a value in a script is run as a part of it: pass it as a variable")
				}
				if version, ok := step.With["version"].(string); ok && strings.HasPrefix(step.Uses, "goreleaser/") && !strings.Contains(string(makefile), "GORELEASER_VERSION := "+version+"\n") {
					report("goreleaser %s is not the version of the Makefile", version)
				}
				for _, command := range makeCommand.FindAllStringSubmatch(step.Run, -1) {
					for target := range strings.FieldsSeq(command[1]) {
						if !slices.ContainsFunc(targets, func(known []string) bool { return known[1] == target }) {
							report("make %s does not exist", target)
						}
					}
				}
				for _, word := range pathWord.FindAllString(step.Run, -1) {
					if top, _, _ := strings.Cut(word, "/"); top != "." && top != "bin" && exists(top) { // a path of this repository
						paths = append(paths, word)
					}
				}
				paths = append(paths, step.Folder)
				for _, key := range []string{"go-version-file", "cache-dependency-path"} {
					if path, ok := step.With[key].(string); ok && !strings.Contains(path, "*") {
						paths = append(paths, path)
					}
				}
			}
			for _, path := range paths {
				if !exists(path) {
					report("%s does not exist", path)
				}
			}
		}
	}
}

// Actions are pinned to a commit, since a tag can be moved to other code. The version
// beside it is for people and for Dependabot. An action has one version everywhere.
func TestWorkflows_PinnedActions(t *testing.T) {
	versions := map[string]string{}
	err := fs.WalkDir(os.DirFS(".."), ".github", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yml" {
			return err
		}
		for _, line := range usesAction.FindAllString(readPage(t, path), -1) {
			switch m := pinned.FindStringSubmatch(line); {
			case m == nil:
				t.Errorf("%s: %s is not pinned as in \"actions/checkout@0123… # v1.2.3\"", path, strings.TrimSpace(line))
			case m[1] == "": // an action of this repository
			case versions[m[1]] == "":
				versions[m[1]] = m[2]
			case versions[m[1]] != m[2]:
				t.Errorf("%s: %s is at %s, elsewhere at %s", path, m[1], m[2], versions[m[1]])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(versions) < 5 {
		t.Errorf("found only %v", versions)
	}
}

// The chart is released with the version of Helm that it is tested with.
func TestWorkflows_HelmVersion(t *testing.T) {
	installed := regexp.MustCompile(`helm\.sh/helm/v3/cmd/helm@(\S+)`).FindStringSubmatch(readPage(t, ".github/workflows/release.yml"))
	if len(installed) == 0 || !strings.Contains(readPage(t, "deploy/helm/rendertest/go.mod"), "helm.sh/helm/v3 "+installed[1]+"\n") {
		t.Errorf("release.yml installs %v, the chart is tested with another version", installed)
	}
}

// A pre-release of the TypeScript client is not what npm install chooses.
func TestWorkflows_PreRelease(t *testing.T) {
	var w workflow
	readYAML(t, ".github/workflows/release.yml", &w)
	steps := w.Jobs["npm"].Steps
	script := steps[len(steps)-1].Run
	for ref, want := range map[string]string{"v1.2.3": "latest", "v1.2.3-rc.1": "next"} {
		command := exec.CommandContext(t.Context(), "bash", "-e", "-c", "npm() { echo \"npm $*\"; }\n"+script)
		command.Env = append(os.Environ(), "GITHUB_REF_NAME="+ref)
		out, err := command.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "npm version --no-git-tag-version "+ref[1:]+"\n") || !strings.Contains(string(out), " --tag "+want+"\n") {
			t.Errorf("%s: %v\n%s", ref, err, out)
		}
	}
}

// exists reports whether a path of the repository exists; the empty one is its root.
func exists(path string) bool {
	_, err := os.Stat(filepath.Join("..", path))
	return err == nil
}

// Every module, package and image of the repository is in dependabot.yml, and
// nothing else.
func TestDependabot_Directories(t *testing.T) {
	var file struct {
		Updates []struct {
			Ecosystem   string `yaml:"package-ecosystem"`
			Directory   string
			Directories []string
		}
	}
	readYAML(t, ".github/dependabot.yml", &file)
	manifests := map[string]string{"go.mod": "gomod", "package.json": "npm", "Dockerfile": "docker", "compose.yaml": "docker-compose", "pom.xml": "maven", "pyproject.toml": "pip"}
	want := []string{"github-actions /", "github-actions /.github/actions/prepare"}
	err := fs.WalkDir(os.DirFS(".."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && slices.Contains([]string{".git", "node_modules", "testdata", "bin", "dist"}, entry.Name()) {
			return fs.SkipDir
		}
		if ecosystem := manifests[entry.Name()]; ecosystem != "" {
			want = append(want, ecosystem+" "+filepath.Clean("/"+filepath.Dir(path)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range file.Updates {
		for _, folder := range append(u.Directories, u.Directory) {
			if folder != "" {
				got = append(got, u.Ecosystem+" "+folder)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("dependabot.yml has\n%s\nand the repository\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The forms for issues are complete: GitHub ignores a form with a mistake.
func TestIssueForms(t *testing.T) {
	for _, name := range []string{"bug", "feature"} {
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID   string
				Attributes struct{ Label string }
			}
		}
		readYAML(t, ".github/ISSUE_TEMPLATE/"+name+".yml", &form)
		if form.Name == "" || form.Description == "" || len(form.Body) == 0 {
			t.Errorf("%s: %+v", name, form)
		}
		for _, field := range form.Body {
			if field.ID == "" || field.Attributes.Label == "" || !slices.Contains([]string{"textarea", "input"}, field.Type) {
				t.Errorf("%s: %+v", name, field)
			}
		}
	}
}
