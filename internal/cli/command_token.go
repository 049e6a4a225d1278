package cli

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fluxgate/fluxgate/rules"
	"github.com/fluxgate/fluxgate/server/config"
)

func newToken() *cobra.Command {
	return group(&cobra.Command{Use: "token", Short: "Create bearer tokens"}, newTokenNew())
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
	var entry tokenEntry
	var roles []string
	var file string
	var output outputFlag
	cmd := &cobra.Command{
		Use: "new", SuggestFor: []string{"create", "add", "generate"}, Args: noArgs,
		Short: "Create a bearer token and its entry for the configuration",
		Long: `Create a bearer token of 256 random bits, and its entry for the server's configuration with its SHA-256. Add the entry to
the file of server.auth.tokens-file, which is read again within two seconds, or to server.auth.tokens.
The token is printed once and not stored. With --file it is written to a new file, and only the entry is printed.
Commands read a token from --token-file, FLUXGATE_TOKEN or FLUXGATE_TOKEN_FILE.`,
		Example: `  fluxgate token new --name ada --role write --file ada.token
  fluxgate token new --name gateway --role check --rule-set api-limits`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := entry.read(roles); err != nil {
				return err
			}
			var random [32]byte
			_, _ = rand.Read(random[:]) // never fails
			entry.Token = base64.RawURLEncoding.EncodeToString(random[:])
			sum := sha256.Sum256([]byte(entry.Token))
			entry.SHA256 = hex.EncodeToString(sum[:])
			if file != "" {
				if err := writeNew(file, entry.Token+"\n"); err != nil {
					return fmt.Errorf("writing the token: %w", err)
				}
				entry.Token = ""
			}
			return output.write(cmd.OutOrStdout(), &entry, entry.write)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&entry.Name, "name", "", "the owner's name in logs and the audit")
	flags.StringArrayVar(&roles, "role", nil, "check, read, write or identities; can be given several times")
	flags.StringArrayVar(&entry.RuleSets, "rule-set", nil, "a rule set that the token is for; can be given several times (default: all)")
	_ = cmd.RegisterFlagCompletionFunc("rule-set", adminTarget().completeRuleSets) // the flag exists
	flags.StringVar(&file, "file", "", "write the token to this file, which must not exist yet")
	output.flag(cmd, asTable, asJSON, asYAML)
	return cmd
}

func (t *tokenEntry) read(roles []string) error {
	if t.Name == "" || len(roles) == 0 {
		return usage("--name and --role are required, such as --name billing --role check")
	}
	if !rules.ValidID(t.Name) {
		return usage("--name: %q is not a name: use 1 to 64 of A-Z a-z 0-9 . _ -", t.Name)
	}
	for _, role := range roles {
		if !slices.Contains(config.Roles, config.Role(role)) {
			return usage("--role: %q is not a role: use check, read, write or identities", role)
		}
		t.Roles = append(t.Roles, config.Role(role))
	}
	for _, id := range t.RuleSets {
		if err := checkRuleSet(id); err != nil {
			return err
		}
	}
	return nil
}

// write writes the entry as an element of the YAML list of tokens: JSON is YAML.
func (t *tokenEntry) write(out io.Writer) {
	if t.Token != "" {
		printf(out, "token: %s\nits entry under server.auth.tokens:\n", t.Token)
	}
	entry := *t
	entry.Token = ""
	text, _ := json.Marshal(entry) // strings have no errors
	printf(out, "  - %s\n", text)
}

// writeNew creates a file that only its owner can read.
func writeNew(name, text string) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // the path is the operator's
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, text)
	return errors.Join(err, file.Close())
}
