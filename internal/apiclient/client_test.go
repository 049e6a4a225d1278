package apiclient_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/server"
	"github.com/fluxgate/fluxgate/server/config"
	_ "github.com/oapi-codegen/runtime" // what is generated needs it
	"github.com/speakeasy-api/openapi/openapi"
)

const token = "the token of an operator"

// serve starts a real server on a real Redis and returns the address of its
// admin API.
func serve(t *testing.T) string {
	t.Helper()
	redis := testenv.StartStandalone(t, testenv.Config{})
	sum := sha256.Sum256([]byte(token))
	c, err := config.Load(config.Sources{Set: []string{
		"redis.uri=" + redis.URI(), "mongo.enabled=false", "server.http=127.0.0.1:0", "server.admin=127.0.0.1:0",
	}})
	if err != nil {
		t.Fatal(err)
	}
	c.Server.Auth.Tokens = []config.Token{{Name: "operator", SHA256: config.Hash(hex.EncodeToString(sum[:])), Roles: []config.Role{config.RoleWrite}}}
	app, err := server.New(t.Context(), c, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- app.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "http://" + app.Addr("admin")
}

// description is the one that the server has of its API.
func description(t *testing.T, url string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/openapi.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%d %v", response.StatusCode, err)
	}
	return text
}

func TestTheDescriptionIsOpenAPI(t *testing.T) {
	testenv.SkipShort(t)
	text := description(t, serve(t))
	validate := func(text []byte) []string {
		t.Helper()
		_, problems, err := openapi.Unmarshal(t.Context(), bytes.NewReader(text))
		if err != nil {
			return []string{err.Error()}
		}
		var found []string
		for _, p := range problems {
			found = append(found, p.Error())
		}
		return found
	}
	if found := validate(text); len(found) > 0 {
		t.Errorf("the description is not valid: %s", strings.Join(found, "\n"))
	}
	// A validator that finds nothing anywhere would be no use.
	if found := validate(bytes.Replace(text, []byte(`"in":"path"`), []byte(`"in":"nowhere"`), 1)); len(found) == 0 {
		t.Error("a broken description is valid too")
	}
}

// TestAGeneratedClientLivesTheLifeOfARule generates a client with oapi-codegen,
// compiles the program in testdata/life with it, and runs that.
func TestAGeneratedClientLivesTheLifeOfARule(t *testing.T) {
	testenv.SkipShort(t)
	url, folder := serve(t), t.TempDir()
	document := filepath.Join(folder, "openapi.json")
	if err := os.WriteFile(document, description(t, url), 0o600); err != nil {
		t.Fatal(err)
	}
	client := filepath.Join(folder, "client.gen.go")
	run(t, "go", "tool", "oapi-codegen", "-package", "main", "-generate", "types,client", "-o", client, document)

	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	// The program is compiled as if its two files stood side by side here.
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(here, "life", "main.go"): filepath.Join(here, "testdata", "life", "main.go"), filepath.Join(here, "life", "client.gen.go"): client,
	}})
	if err != nil {
		t.Fatal(err)
	}
	plan := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(plan, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Log(run(t, "go", "run", "-overlay", plan, "./life", url, token))
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
