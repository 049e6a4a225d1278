package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// exactVersion is an image with a version of three numbers, so that what runs
// does not change without a change here.
var exactVersion = regexp.MustCompile(`^[a-z0-9./-]+:v?\d+\.\d+\.\d+(@sha256:[0-9a-f]{64})?$`)

// Every service of compose.yaml has an exact image, no privileges and no port
// beyond this machine, and no password is written into the file.
func TestCompose_Hardening(t *testing.T) {
	var compose struct {
		Services map[string]struct {
			Image       string
			Build       map[string]string
			ReadOnly    bool     `yaml:"read_only"`
			CapDrop     []string `yaml:"cap_drop"`
			CapAdd      []string `yaml:"cap_add"`
			SecurityOpt []string `yaml:"security_opt"`
			Privileged  bool
			Ports       []string
			Networks    []string
			Environment map[string]string
		}
		Networks map[string]struct{ Internal bool }
	}
	if err := yaml.Unmarshal([]byte(readFile(t, "deploy/compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	for name, service := range compose.Services {
		if len(service.Build) == 0 && !exactVersion.MatchString(service.Image) {
			t.Errorf("%s has the image %q: name an exact version", name, service.Image)
		}
		if !service.ReadOnly || service.Privileged || len(service.CapAdd) > 0 ||
			!slices.Equal(service.CapDrop, []string{"ALL"}) || !slices.Equal(service.SecurityOpt, []string{"no-new-privileges:true"}) {
			t.Errorf("%s is not hardened: %+v", name, service)
		}
		for _, port := range service.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s beyond this machine", name, port)
			}
		}
		for key, value := range service.Environment {
			if regexp.MustCompile(`PASSWORD|SECRET|TOKEN`).MatchString(key) && !regexp.MustCompile(`^\$\{\w+:\?.+\}$`).MatchString(value) {
				t.Errorf("%s has a default for %s: write ${NAME:?what to set}", name, key)
			}
		}
	}
	if value := compose.Services["grafana"].Environment["GF_SECURITY_ADMIN_PASSWORD"]; value == "" {
		t.Error("Grafana has its default password")
	}
	for _, name := range []string{"redis", "mongo"} {
		if on := compose.Services[name].Networks; !slices.Equal(on, []string{"data"}) || !compose.Networks["data"].Internal {
			t.Errorf("%s has no password and is on the networks %v", name, on)
		}
	}
}

// Every image that the Dockerfile starts from has an exact version.
func TestDockerfile_ExactImages(t *testing.T) {
	named := map[string]bool{"scratch": true, "${BINARY}": true} // BINARY names a stage
	for _, stage := range regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+)(?: AS (\S+))?`).FindAllStringSubmatch(readFile(t, "Dockerfile"), -1) {
		if !named[stage[1]] && !exactVersion.MatchString(stage[1]) {
			t.Errorf("%s: name an exact version", stage[1])
		}
		named[stage[2]] = true
	}
	for _, stage := range []string{"compiled", "prebuilt"} {
		if !named[stage] {
			t.Errorf("the Dockerfile has no stage %s", stage)
		}
	}
}

// unitFile is the systemd unit.
const unitFile = "deploy/systemd/fluxgate.service"

// The unit keeps the service from everything that it does not need, and gives
// it its configuration, which may have passwords, as a credential.
func TestUnit_Hardening(t *testing.T) {
	unit := strings.Split(readFile(t, unitFile), "\n")
	for _, line := range []string{
		"DynamicUser=yes", "UMask=0077", "CapabilityBoundingSet=", "NoNewPrivileges=yes", "RestrictSUIDSGID=yes", "RemoveIPC=yes",
		"ProtectSystem=strict", "ProtectHome=yes", "PrivateDevices=yes", "PrivateMounts=yes", "PrivateTmp=yes", "PrivateUsers=yes",
		"ProtectClock=yes", "ProtectControlGroups=yes", "ProtectHostname=yes", "ProtectKernelLogs=yes", "ProtectKernelModules=yes",
		"ProtectKernelTunables=yes", "ProtectProc=invisible", "RestrictNamespaces=yes", "RestrictRealtime=yes", "LockPersonality=yes",
		"MemoryDenyWriteExecute=yes", "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
		"SystemCallFilter=@system-service", "SystemCallFilter=~@privileged @resources", "SystemCallArchitectures=native",
		"LoadCredential=fluxgate.yaml:/etc/fluxgate/fluxgate.yaml",
	} {
		if !slices.Contains(unit, line) {
			t.Errorf("the unit does not have %s", line)
		}
	}
	for _, line := range unit {
		if strings.HasPrefix(line, "ExecStart=") && !strings.Contains(line, "--config ${CREDENTIALS_DIRECTORY}/fluxgate.yaml ") {
			t.Errorf("%s does not read the credential", line)
		}
		if strings.HasPrefix(line, "Environment") {
			t.Errorf("%s is shown to everyone by systemctl show", line)
		}
	}
}

// systemd understands the unit, and rates it as hardened: 0 is best, 10 worst.
func TestUnit_Analysis(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed: TestUnit_Hardening reads the unit without it")
	}
	unit := filepath.Join(t.TempDir(), "fluxgate.service")
	text := strings.Replace(readFile(t, unitFile), "/usr/bin/fluxgate ", "/bin/true ", 1) // it is not installed here
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", unit}, {"security", "--offline=yes", "--threshold=15", unit}} {
		out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
		if err != nil || args[0] == "verify" && len(out) > 0 {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}
