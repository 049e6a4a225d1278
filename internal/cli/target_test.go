package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// The token decides what a caller may do, and errors say which one to use.
func TestTarget_Roles(t *testing.T) {
	folder := t.TempDir()
	hash := func(token string) string {
		sum := sha256.Sum256([]byte(token))
		return hex.EncodeToString(sum[:])
	}
	tokens := write(t, folder, "tokens.yaml", "tokens:\n"+
		"  - {name: reader, sha256: "+hash("token-of-the-reader")+", roles: [read]}\n"+
		"  - {name: writer, sha256: "+hash("token-of-the-writer")+", roles: [read, write]}\n")
	address, requests := serveWith(t, append(inRedis(t), "server.auth.tokens-file="+tokens)...)
	rules := write(t, folder, "rules.yaml", firstRules)
	reader, writer := write(t, folder, "reader", "token-of-the-reader\n"), write(t, folder, "writer", "token-of-the-writer\n")
	wrong, empty, two := write(t, folder, "wrong", "token-of-another"), write(t, folder, "empty", "\n"), write(t, folder, "two", "token-of-the-reader\ntoken-of-the-writer")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"rules", "list"}, exitError, "use --token-file or FLUXGATE_TOKEN, or --cert-file and --key-file"},
		{[]string{"rules", "list", "--token-file", wrong}, exitError, "the server does not accept the token in " + wrong},
		{[]string{"rules", "list", "--token-file", empty}, exitError, "is empty"},
		{[]string{"rules", "list", "--token-file", two}, exitError, "must contain one token and nothing else"},
		{[]string{"rules", "list", "--token-file", folder + "/none"}, exitError, "reading the token"},
		{[]string{"rules", "list", "--token-file", large(t, folder)}, exitError, "has more than 1024 KiB"},
		{[]string{"rules", "list", "--token-file", reader}, exitOK, ""},
		{[]string{"rules", "apply", "--yes", "-f", rules, "--token-file", reader}, exitError, "api-limits was not changed"},
		{[]string{"rules", "apply", "--yes", "-f", rules, "--token-file", reader}, exitError, "use a token with that role"},
		{[]string{"rules", "apply", "--yes", "-f", rules, "--token-file", writer}, exitOK, ""},
		{[]string{"bucket", "reset", "--yes", "--rule-set", "api-limits", "--token-file", reader}, exitError, "role write"},
	} {
		code, out, errs := call(t, append(c.args, "-s", "http://"+address)...)
		if code != c.code || !strings.Contains(errs, c.says) || strings.Contains(out+errs, "token-of") {
			t.Errorf("fluxgate %s: exit code %d\n%s%s", strings.Join(c.args, " "), code, out, errs)
		}
	}
	code, _, errs := call(t, "check", "-s", requests, "--token-file", reader)
	if code != exitError || !strings.Contains(errs, "token:reader does not have the role check.") || strings.Contains(errs, "the token needs") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	if code, _, errs := call(t, "check", "-s", requests); code != exitError || !strings.Contains(errs, "use --token-file") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	code, out, _ := call(t, "rules", "history", "api-limits", "--token-file", reader, "-s", "http://"+address)
	if code != exitOK || !strings.Contains(out, "writer") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// large returns a file that is larger than any token or certificate.
func large(t *testing.T, folder string) string {
	t.Helper()
	name := write(t, folder, "large", "")
	if err := os.Truncate(name, 1<<20+1); err != nil {
		t.Fatal(err)
	}
	return name
}

// A server with TLS and client certificates.
func TestTarget_TLS(t *testing.T) {
	certs := testenv.StartStandalone(t, testenv.Config{TLS: true}).Certificates()
	address, requests := serveWith(t, append(inRedis(t), "server.tls.cert-file="+certs.CertFile, "server.tls.key-file="+certs.KeyFile,
		"server.tls.client-ca-file="+certs.CAFile)...)
	huge := large(t, t.TempDir())
	pair := []string{"--cert-file", certs.CertFile, "--key-file", certs.KeyFile}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{append([]string{"-s", "https://" + address, "--ca-file", certs.CAFile}, pair...), exitOK, "there are no rule sets"},
		{append([]string{"-s", "https://" + address}, pair...), exitError, "certificate signed by unknown authority"},
		{[]string{"-s", "http://" + address}, exitError, "then its address begins with https://"},
		{append([]string{"-s", "https://" + address, "--ca-file", certs.KeyFile}, pair...), exitError, "contains no PEM certificate"},
		{[]string{"-s", "https://" + address, "--ca-file", certs.CAFile, "--cert-file", certs.CertFile, "--key-file", certs.CertFile}, exitError, "reading a certificate and its key"},
		{[]string{"-s", "https://" + address, "--ca-file", huge}, exitError, "has more than 1024 KiB"},
		{[]string{"-s", "https://" + address, "--cert-file", huge, "--key-file", certs.KeyFile}, exitError, "has more than 1024 KiB"},
		{[]string{"-s", "https://" + address, "--cert-file", certs.CertFile, "--key-file", huge}, exitError, "has more than 1024 KiB"},
		{[]string{"-s", "https://" + address, "--cert-file", certs.CertFile}, exitUsage, "go together"},
		{[]string{"-s", "http://" + address, "--ca-file", certs.CAFile}, exitUsage, "need a server at https://"},
	} {
		code, out, errs := call(t, append([]string{"rules", "list"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("fluxgate rules list %s: exit code %d\n%s%s", strings.Join(c.args, " "), code, out, errs)
		}
		// And the same of a check, which the server answers elsewhere.
		args := append([]string{"check"}, c.args...)
		for i := range args {
			args[i] = strings.Replace(args[i], address, requests, 1)
		}
		says := strings.Replace(c.says, "there are no rule sets", "allowed (no-rule-set)", 1)
		if code, out, errs := call(t, args...); code != c.code || !strings.Contains(out+errs, says) {
			t.Errorf("fluxgate %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
		}
	}
}

// The error about an unreachable server names its address and where that is from.
func TestTarget_Unreachable(t *testing.T) {
	away := "http://" + testenv.FreeAddr(t)
	rules := write(t, t.TempDir(), "rules.yaml", firstRules)
	for _, args := range [][]string{
		{"rules", "list"}, {"rules", "get", "x"}, {"rules", "apply", "--yes", "-f", rules}, {"rules", "diff", "-f", rules},
	} {
		code, _, errs := call(t, append(args, "-s", away)...)
		if code != exitError || !strings.Contains(errs, "is a server running at "+away+"? or work without one: --direct --config FILE") {
			t.Errorf("%v: exit code %d\n%s", args, code, errs)
		}
	}
	for _, args := range [][]string{{"explain"}, {"warnings"}, {"bucket", "reset", "--rule-set", "x", "--yes"}} {
		code, _, errs := call(t, append(args, "-s", away)...)
		if code != exitError || !strings.Contains(errs, "is a server running at "+away+"? see fluxgate serve --help") {
			t.Errorf("%v: exit code %d\n%s", args, code, errs)
		}
	}
	// An address without a scheme is one of http, and errors say whose it is.
	t.Setenv(adminVariable, strings.TrimPrefix(away, "http://"))
	if code, _, errs := call(t, "rules", "list"); code != exitError || !strings.Contains(errs, "is a server running at "+away+" (FLUXGATE_ADMIN)?") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	if code, _, errs := call(t, "rules", "list", "-s", away); code != exitError || strings.Contains(errs, adminVariable) {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	t.Setenv(adminVariable, "ftp://nowhere")
	if code, _, errs := call(t, "rules", "list"); code != exitUsage || !strings.Contains(errs, "FLUXGATE_ADMIN: creating a client") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	// It is not a setting, and no reason to refuse the others.
	if code, _, errs := call(t, "config", "check"); code != exitOK {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}

// The error about the wrong listener names the right one.
func TestTarget_WrongListener(t *testing.T) {
	address, requests := serveWith(t, inRedis(t)...)
	code, _, errs := call(t, "rules", "list", "-s", "http://"+requests)
	if code != exitError || !strings.Contains(errs, "server.admin") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	code, _, errs = call(t, "check", "-s", address)
	if code != exitError || !strings.Contains(errs, "is http://"+address+" the address of server.http? a server has two: server.http and server.admin") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	code, _, errs = call(t, "rules", "list", "-s", "https://"+address)
	if code != exitError || !strings.Contains(errs, "server gave HTTP response to HTTPS client") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}

// A caller with too many requests is refused with the reason.
func TestTarget_RateLimited(t *testing.T) {
	address, _ := serveWith(t, append(inRedis(t), "server.admin-rate=1")...)
	for i, says := range []string{"there are no rule sets", "callers.1-per-1m has 0 of 1 left"} {
		if code, out, errs := call(t, "rules", "list", "-s", address); code != i*exitError || !strings.Contains(out+errs, says) {
			t.Errorf("exit code %d\n%s%s", code, out, errs)
		}
	}
}

// If the connection ends after a change was sent, it may have been made.
func TestChangeError_LostAnswer(t *testing.T) {
	address, _ := serveWith(t, inRedis(t)...)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1)) // it has arrived
			_ = conn.Close()
		}
	}()
	other := newOtherOperator(t, address)
	other.sets(t, "limits", 2, "")
	v, err := other.Load(t.Context(), "limits")
	if err != nil {
		t.Fatal(err)
	}
	_, err = newOtherOperator(t, listener.Addr().String()).Put(t.Context(), v.RuleSet, new(changeFlags).change(1))
	if said := changeError(os.Stderr, "limits", err); !strings.Contains(said.Error(), "may have been made: check fluxgate rules history limits before you try again") {
		t.Error(said)
	}
}

// Usage errors have exit code 64 and say what is expected.
func TestRun_UsageErrors(t *testing.T) {
	const file = "../../examples/rules.yaml"
	for _, c := range []struct {
		args, says string
	}{
		{"rules get", "takes one rule set id"},
		{"rules get a b", "got 2 arguments"},
		{"rules get a/b", "is not a rule set id"},
		{"rules get a --revision 0", "must be at least 1"},
		{"rules get a -o table", "use one of yaml, json"},
		{"rules list -o xml", "use one of table, json, yaml"},
		{"rules list --direct --server http://127.0.0.1:1", "--server is for a server"},
		{"rules list --direct --token-file x", "--token-file is for a server"},
		{"rules list --config x", "--config needs --direct"},
		{"rules list --set a=b", "--set needs --direct"},
		{"rules list --server ftp://nowhere", "--server: creating a client: the address must be of the form http://127.0.0.1:9090"},
		{"rules apply -f " + file + " --author me", "--author needs --direct"},
		{"rules apply", "name the rules"},
		{"rules diff", "name the rules"},
		{"rules diff a", "takes no arguments"},
		{"rules history a --limit 0", "--limit: must be 1 to 1000, got 0"},
		{"rules restore a", "takes a rule set id and a revision"},
		{"rules restore a last", "is not a revision"},
		{"rules delete", "takes one rule set id"},
		{"bucket reset --rule-set a --rule r --user=", "--user is empty: is a variable not set?"},
		{"bucket reset --rule-set a --rule r --api-key= --yes", "--api-key is empty"},
		{"bucket reset --rule-set a --rule r --ip= --yes", "--ip is empty"},
		{"bucket reset --rule-set a --rule= --yes", "--rule is empty"},
		{"bucket reset --rule-set a --rule r --key= --yes", "--key is empty"},
		{"rules apply rules.yaml", "takes no arguments, got"},
		{"explain --cost -1", "it cannot be negative"},
		{"explain --rule-set a/b --ip 192.0.2.1", "is not a rule set id"},
		{"explain --rule-set a --ip nowhere", "is not an IP address"},
		{"explain --rule-set a --header X", "is not name=value"},
		{"explain --descriptor route", "is not key=value"},
		{"explain --descriptor =login", "is not key=value"},
		{"explain" + strings.Repeat(" --descriptor k=v", 17), "--descriptor: 17 entries, at most 16 are allowed"},
		{"bucket reset --yes", "--rule-set is required"},
		{"explain --rule-set a/b", "is not a rule set id"},
		{"explain ada", "takes no arguments"},
	} {
		code, out, errs := call(t, strings.Fields(c.args)...)
		if code != exitUsage || !strings.Contains(errs, c.says) {
			t.Errorf("fluxgate %s: exit code %d\n%s%s", c.args, code, out, errs)
		}
	}
	code, _, errs := call(t, "rules", "apply", "-f", file, "--comment", "a\x1b[31m")
	if code != exitUsage || !strings.Contains(errs, "cannot contain U+001B") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}

// A token is not sent unencrypted to another machine unless the address says
// http:// itself.
func TestTokenFile_AddressWithoutScheme(t *testing.T) {
	token := write(t, t.TempDir(), "token", "token-of-the-reader\n")
	for _, c := range []struct {
		server  string
		refused bool
	}{
		{"fluxgate.invalid:9090", true}, {"192.0.2.1:9090", true}, {"127.0.0.1.example.invalid:1", true},
		{"http://fluxgate.invalid:9090", false}, {"127.0.0.1:1", false}, {"localhost:1", false}, {"[::1]:1", false},
	} {
		for _, command := range [][]string{{"rules", "list"}, {"check"}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // 192.0.2.1 never answers
			var out, errs bytes.Buffer
			code := run(ctx, "dev", append(command, "-s", c.server, "--token-file", token), strings.NewReader(""), &out, &errs)
			cancel()
			refused := code == exitUsage && strings.Contains(errs.String(), "begin the address with https://")
			if refused != c.refused || code == exitOK || strings.Contains(errs.String(), "token-of") {
				t.Errorf("%v -s %s: exit code %d\n%s", command, c.server, code, errs.String())
			}
		}
	}
	t.Setenv(adminVariable, "fluxgate.invalid:9090")
	if code, _, errs := call(t, "rules", "list", "--token-file", token); code != exitUsage || !strings.Contains(errs, "FLUXGATE_ADMIN: the token would be sent unencrypted") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}
