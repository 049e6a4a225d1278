package cli

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
)

// A token is accepted by a server that has its hash, in a file and in the environment of
// every command.
func TestToken_EveryCommand(t *testing.T) {
	const secret = "the-token-of-ada"
	folder := t.TempDir()
	file := write(t, folder, "ada.token", secret+"\n")
	tokens := write(t, folder, "tokens.yaml", fmt.Sprintf("tokens: [{name: ada, sha256: %x, roles: [write]}]\n", sha256.Sum256([]byte(secret))))
	rules := write(t, folder, "rules.yaml", ruleSet("api-limits", 20))
	admin, address := serveWith(t, "redis.enabled=false", "mongo.enabled=false", "rules.file="+rules, "server.auth.tokens-file="+tokens)
	commands := []string{"rules list --server " + admin, "explain --server " + admin, "check --server " + address}
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
}
