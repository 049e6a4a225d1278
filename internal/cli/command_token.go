package cli

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/server/config"
	"github.com/spf13/cobra"
)

func newToken() *cobra.Command {
	return group(&cobra.Command{Use: "token", Short: "Make bearer tokens"}, newTokenNew())
}

// tokenEntry is a token and its entry in server.auth.tokens.
type tokenEntry struct {
	Token    string        `json:"token,omitempty"`
	Name     string        `json:"name"`
	SHA256   string        `json:"sha256"`
	Roles    []config.Role `json:"roles"`
	RuleSets []string      `json:"rule-sets,omitempty"`
}

func newTokenNew() *cobra.Command {
	var made tokenEntry
	var roles []string
	var file string
	var as output
	cmd := &cobra.Command{
		Use: "new", Short: "Make a bearer token and its entry for the configuration", Args: noArgs,
		Long: `Make a bearer token of 256 random bits. The server's configuration gets its entry, which has its SHA-256: add it to
server.auth.tokens or to the file that server.auth.tokens-file names, and send the server SIGHUP.
The token is printed once and kept nowhere. With --file it is written to a new file, and only the entry is printed.
Commands read a token from --token-file, FLUXGATE_TOKEN or FLUXGATE_TOKEN_FILE.`,
		Example: `  fluxgate token new --name ada --role write --file ada.token
  fluxgate token new --name gateway --role check --rule-set api-limits`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := made.read(roles); err != nil {
				return err
			}
			var random [32]byte
			_, _ = rand.Read(random[:]) // never fails
			made.Token = base64.RawURLEncoding.EncodeToString(random[:])
			sum := sha256.Sum256([]byte(made.Token))
			made.SHA256 = hex.EncodeToString(sum[:])
			if file != "" {
				if err := writeNew(file, made.Token+"\n"); err != nil {
					return fmt.Errorf("writing the token: %w", err)
				}
				made.Token = ""
			}
			return as.write(cmd.OutOrStdout(), &made, made.print)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&made.Name, "name", "", "what logs and the audit call its owner")
	flags.StringArrayVar(&roles, "role", nil, "check, read or write; can be given several times")
	flags.StringArrayVar(&made.RuleSets, "rule-set", nil, "a rule set that it is for; can be given several times (default: all)")
	flags.StringVar(&file, "file", "", "write the token to this file, which must not exist yet")
	as.flag(cmd, asTable, asJSON, asYAML)
	return cmd
}

func (t *tokenEntry) read(roles []string) error {
	if t.Name == "" || len(roles) == 0 {
		return usage("--name and --role are required, such as --name billing --role check")
	}
	if !fluxgate.ValidID(t.Name) {
		return usage("--name: %q is not a name: use 1 to 64 of A-Z a-z 0-9 . _ -", t.Name)
	}
	for _, role := range roles {
		switch r := config.Role(role); r {
		case config.RoleCheck, config.RoleRead, config.RoleWrite:
			t.Roles = append(t.Roles, r)
		default:
			return usage("--role: %q is not a role: use check, read or write", role)
		}
	}
	for _, id := range t.RuleSets {
		if err := checkRuleSet(id); err != nil {
			return err
		}
	}
	return nil
}

// print writes the entry as an element of the YAML list of tokens.
func (t *tokenEntry) print(out io.Writer) error {
	roles := make([]string, len(t.Roles))
	for i, r := range t.Roles {
		roles[i] = string(r)
	}
	entry := fmt.Sprintf("  - { name: %q, sha256: %s, roles: [%s]", t.Name, t.SHA256, strings.Join(roles, ", "))
	if len(t.RuleSets) > 0 {
		entry += fmt.Sprintf(", rule-sets: [%q", t.RuleSets[0])
		for _, id := range t.RuleSets[1:] {
			entry += fmt.Sprintf(", %q", id)
		}
		entry += "]"
	}
	if t.Token != "" {
		entry = "token: " + t.Token + "\nits entry under server.auth.tokens:\n" + entry
	}
	_, err := fmt.Fprintln(out, entry+" }")
	return err
}

// writeNew writes a file that only its owner can read, and that is not there
// yet.
func writeNew(name, text string) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the path is the operator's
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, text)
	return errors.Join(err, file.Close())
}
