package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// A token output by token new is accepted by a server with the entry that it
// prints, in a file and in the environment of every command.
func TestTokenNew_IsAccepted(t *testing.T) {
	folder := t.TempDir()
	file := folder + "/ada.token"
	code, entry, errs := call(t, "token", "new", "--name", "ada", "--role", "write", "--file", file)
	if code != exitOK || errs != "" {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	token, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(string(token))
	if info, _ := os.Stat(file); info.Mode() != 0o600 || len(secret) < 43 || strings.Contains(entry, secret) {
		t.Errorf("mode %v, %d characters\n%s", info.Mode(), len(secret), entry)
	}
	tokens := write(t, folder, "tokens.yaml", "tokens:\n"+entry)
	rules := write(t, folder, "rules.yaml", ruleSet("api-limits", 20))
	admin, address := serveWith(t, "redis.enabled=false", "mongo.enabled=false", "rules.file="+rules, "server.auth.tokens-file="+tokens)
	commands := []string{"rules list --server " + admin, "explain --server " + admin, "bucket peek --server " + admin, "check --server " + address}
	for _, command := range commands {
		if code, _, errs := call(t, strings.Fields(command)...); code != exitError || !strings.Contains(errs, "FLUXGATE_TOKEN") {
			t.Errorf("fluxgate %s without a token: exit code %d\n%s", command, code, errs)
		}
	}
	for name, value := range map[string]string{"FLUXGATE_TOKEN": secret, "FLUXGATE_TOKEN_FILE": file} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			for _, command := range append(commands, "config check") {
				if code, out, errs := call(t, strings.Fields(command)...); code != exitOK {
					t.Errorf("fluxgate %s: exit code %d\n%s%s", command, code, out, errs)
				}
			}
			t.Setenv("FLUXGATE_ADMIN", admin)
			t.Setenv("FLUXGATE_SERVER", address)
			for _, command := range []string{"rules list", "check"} {
				if code, out, errs := call(t, strings.Fields(command)...); code != exitOK {
					t.Errorf("fluxgate %s: exit code %d\n%s%s", command, code, out, errs)
				}
			}
		})
	}
	t.Setenv("FLUXGATE_TOKEN", "wrong")
	if code, out, errs := call(t, "rules", "list", "--server", admin, "--token-file", file); code != exitOK {
		t.Errorf("a flag does not override the environment: exit code %d\n%s%s", code, out, errs)
	}
	if code, _, errs := call(t, "token", "new", "--name", "ada", "--role", "read", "--file", file); code != exitError || !strings.Contains(errs, "exists") {
		t.Errorf("a token was written over: exit code %d\n%s", code, errs)
	}
}

// Without a file the token is shown once, beside its hash.
func TestTokenNew_Shown(t *testing.T) {
	code, out, _ := call(t, "token", "new", "--name", "ci", "--role", "check", "--rule-set", "api-limits", "--output", "json")
	var output struct {
		Token, Name, SHA256 string
		Roles               []string
		RuleSets            []string `json:"rule-sets"`
	}
	if err := json.Unmarshal([]byte(out), &output); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v\n%s", code, err, out)
	}
	sum := sha256.Sum256([]byte(output.Token))
	if output.SHA256 != hex.EncodeToString(sum[:]) || output.Name != "ci" || output.Roles[0] != "check" || output.RuleSets[0] != "api-limits" {
		t.Errorf("%+v", output)
	}
	for _, args := range [][]string{{"--role", "admin"}, {"--name", "a b", "--role", "read"}, {"--role", "read", "--rule-set", "a/b"}, {}} {
		if code, out, errs := call(t, append([]string{"token", "new"}, args...)...); code != exitUsage {
			t.Errorf("%q: exit code %d\n%s%s", args, code, out, errs)
		}
	}
}
