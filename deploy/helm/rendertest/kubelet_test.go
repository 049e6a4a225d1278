package rendertest

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server/config"
)

const token = "a-token-of-a-test"

// testSecrets are the Secrets that values name, by name and key.
func testSecrets(t testing.TB) map[string]map[string]string {
	t.Helper()
	pair := secretOf(t, testenv.NewCertificates(t))
	return map[string]map[string]string{
		"redis":      {"uri": "rediss://:secret@redis:6379", "password": "secret"},
		"mongo":      {"uri": "mongodb://fluxgate:secret@mongo:27017/fluxgate"},
		"login":      {"username": "fluxgate", "password": "secret"},
		"redis-tls":  pair,
		"mongo-tls":  pair,
		"xds-tls":    pair,
		"tls":        pair,
		"oidc":       pair,
		"key-secret": {"secret": "0123456789abcdef"},
		"receipts":   {"secret": "0123456789abcdef"},
		"events":     {"webhook": "https://hooks.example.com/services/secret", "secret": "0123456789abcdef"},
		"tokens":     {"tokens.yaml": fmt.Sprintf("tokens: [{name: all, sha256: %x, roles: [check, read, write]}]\n", sha256.Sum256([]byte(token)))},
		"token":      {"token": token},
		"git":        {"ssh": "key", "known_hosts": "hosts", "username": "git", "password": "secret"},
	}
}

// machine runs containers of the rendered pods as the kubelet does, but in a folder instead
// of a container.
type machine struct {
	root    string
	found   rendered
	secrets map[string]map[string]string
}

// inside returns text with the paths of a container as they are in the folder.
func (m machine) inside(text string) string {
	for _, path := range []string{"/etc/fluxgate/", "/var/lib/fluxgate", "/git/repository"} {
		text = strings.ReplaceAll(text, path, m.root+path)
	}
	return text
}

// mount writes the volumes of a container.
func (m machine) mount(p pod, c corev1.Container) error {
	volumes := map[string]corev1.VolumeSource{}
	for _, v := range p.spec.Volumes {
		volumes[v.Name] = v.VolumeSource
	}
	for _, at := range c.VolumeMounts {
		folder := filepath.Join(m.root, at.MountPath)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		files := map[string]string{}
		switch v := volumes[at.Name]; {
		case v.Secret != nil:
			files = m.secrets[v.Secret.SecretName]
		case v.ConfigMap != nil && v.ConfigMap.Name == "existing-rules":
			files["rules.yaml"] = "id: api-limits\nrules: []\n"
		case v.ConfigMap != nil:
			for name, content := range all[corev1.ConfigMap](m.found)[v.ConfigMap.Name].Data {
				files[name] = m.inside(content)
			}
		default: // an emptyDir
			continue
		}
		if err := project(folder, "..first", files); err != nil {
			return err
		}
	}
	return nil
}

// project writes the files of a ConfigMap or Secret as the kubelet does: to a folder of
// their own that the link ..data is switched to, with a link to each file in it.
func project(folder, version string, files map[string]string) error {
	problems := []error{os.Mkdir(filepath.Join(folder, version), 0o700)}
	for name, content := range files {
		problems = append(problems, os.WriteFile(filepath.Join(folder, version, name), []byte(content), 0o600))
	}
	next := filepath.Join(folder, "..data_tmp")
	problems = append(problems, os.Symlink(version, next), os.Rename(next, filepath.Join(folder, "..data")))
	for name := range files {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(folder, name)); !errors.Is(err, os.ErrExist) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

var variable = regexp.MustCompile(`\$\(([A-Z_]+)\)`)

// environ are the variables of a container. One can refer to those before it.
func (m machine) environ(c corev1.Container) (environ []string) {
	known := map[string]string{}
	for _, e := range c.Env {
		value := variable.ReplaceAllStringFunc(e.Value, func(reference string) string {
			return known[variable.FindStringSubmatch(reference)[1]]
		})
		if e.ValueFrom != nil {
			value = m.secrets[e.ValueFrom.SecretKeyRef.Name][e.ValueFrom.SecretKeyRef.Key]
		}
		value = m.inside(value)
		known[e.Name] = value
		environ = append(environ, e.Name+"="+value)
	}
	return environ
}

// args are the arguments of a container.
func (m machine) args(c corev1.Container) (args []string) {
	for _, arg := range c.Args {
		args = append(args, m.inside(arg))
	}
	return args
}

// checkConfig checks the configuration of the servers as the server does at its start.
func checkConfig(t testing.TB, found rendered, secrets map[string]map[string]string) error {
	t.Helper()
	_, err := loadConfig(t, found, secrets)
	return err
}

// loadConfig returns the configuration of the servers.
func loadConfig(t testing.TB, found rendered, secrets map[string]map[string]string) (*config.Config, error) {
	t.Helper()
	root, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(root)
	m := machine{root, found, secrets}
	server := found.server()
	container := server.spec.Containers[0]
	if err := m.mount(server, container); err != nil {
		return nil, err
	}
	loaded, err := config.Load(config.Sources{Environ: m.environ(container)})
	if err != nil {
		return nil, err
	}
	err = loaded.Check()
	return loaded, err
}

// listen gives the listeners of a configuration free addresses, in place of those of the
// container, and returns them by the container's ports.
func listen(t testing.TB, found rendered) map[int32]string {
	t.Helper()
	var content struct {
		Fluxgate map[string]map[string]any `json:"fluxgate"`
	}
	data := all[corev1.ConfigMap](found)[one[appsv1.Deployment](found).Name].Data
	if err := json.Unmarshal([]byte(data["fluxgate.yaml"]), &content); err != nil {
		t.Fatal(err)
	}
	addresses := map[int32]string{}
	for _, name := range []string{"http", "grpc", "admin", "metrics"} {
		_, port, there := strings.Cut(content.Fluxgate["server"][name].(string), ":")
		if !there {
			continue
		}
		var number int32
		if _, err := fmt.Sscan(port, &number); err != nil {
			t.Fatal(err)
		}
		addresses[number] = testenv.FreeAddr(t)
		content.Fluxgate["server"][name] = addresses[number]
	}
	changed, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	data["fluxgate.yaml"] = string(changed)
	return addresses
}
