package cli

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/config"
	"go.yaml.in/yaml/v3"
)

// readFile reads a file of the tree.
func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The build of the Dockerfile makes a static binary with its version.
func TestDockerfile_StaticBinary(t *testing.T) {
	testenv.SkipShort(t)
	line := regexp.MustCompile(`RUN (CGO_ENABLED=0 .*go build .*) -o /fluxgate (\S+)`).FindStringSubmatch(readFile(t, "Dockerfile"))
	if line == nil {
		t.Fatal("the Dockerfile builds nothing")
	}
	binary := filepath.Join(t.TempDir(), "fluxgate")
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "VERSION=1.2.3 && "+line[1]+" -o "+binary+" "+line[2])
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it is linked dynamically: an image without a C library cannot run it")
		}
	}
	out, err := exec.CommandContext(t.Context(), binary, "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "fluxgate 1.2.3") {
		t.Errorf("%v, %s", err, out)
	}
}

// What compose.yaml mounts exists, and its configuration is valid.
func TestCompose_References(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			Volumes []string `yaml:"volumes"`
			Depends []string `yaml:"depends_on"`
		} `yaml:"services"`
		Volumes map[string]any `yaml:"volumes"`
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "deploy/compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	for name, service := range compose.Services {
		for _, volume := range service.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			if _, named := compose.Volumes[from]; named {
				continue
			}
			if _, err := os.Stat("../../deploy/" + from); err != nil {
				t.Errorf("%s mounts what is not there: %v", name, err)
			}
		}
		for _, other := range service.Depends {
			if _, there := compose.Services[other]; !there {
				t.Errorf("%s depends on %s, which is not there", name, other)
			}
		}
	}
	variable := regexp.MustCompile(`ENV (FLUXGATE_\S+)`).FindStringSubmatch(readFile(t, "Dockerfile"))
	if variable == nil {
		t.Fatal("the Dockerfile says nothing about copies")
	}
	c, err := config.Load(config.Sources{File: "../../deploy/fluxgate.yaml", Environ: variable[1:]})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	for _, host := range []string{"redis", "mongo"} {
		if _, there := compose.Services[host]; !there || !strings.Contains(string(c.Redis.URI)+string(c.Mongo.URI), "//"+host+":") {
			t.Errorf("the configuration does not find %s", host)
		}
	}
}

// The unit starts an existing command with existing flags.
func TestUnit_Command(t *testing.T) {
	unit := readFile(t, "deploy/systemd/fluxgate.service")
	line := regexp.MustCompile(`ExecStart=/usr/bin/fluxgate (.*)`).FindStringSubmatch(unit)
	if line == nil {
		t.Fatal("the unit starts nothing")
	}
	root := newRoot("dev")
	cmd, args, err := root.Find(strings.Fields(line[1]))
	if err != nil || cmd.Name() != "serve" {
		t.Fatalf("%v: %v", cmd.Name(), err)
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Error(err)
	}
}

// The image and the compose file listen on all addresses of their container: on loopback, the
// default, nothing outside would reach them.
func TestDeploy_ListensOutsideOfItsContainer(t *testing.T) {
	files := map[string]string{"deploy/fluxgate.yaml": readFile(t, "deploy/fluxgate.yaml")}
	written := regexp.MustCompile(`echo '(.*)' > /names/etc/fluxgate/fluxgate.yaml`).FindStringSubmatch(readFile(t, "Dockerfile"))
	if written == nil || !strings.Contains(readFile(t, "Dockerfile"), "FLUXGATE_CONFIG=/etc/fluxgate/fluxgate.yaml") {
		t.Fatal("the image has no configuration")
	}
	files["Dockerfile"] = written[1]
	for name, text := range files {
		c, err := config.Load(config.Sources{File: write(t, t.TempDir(), "fluxgate.yaml", text)})
		if err != nil || c.Server.HTTP != ":8080" {
			t.Errorf("%s: server.http is %q, %v", name, c.Server.HTTP, err)
		}
	}
}
