package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// hostedCommands need a published release. The release workflow runs them; here they only
// print their arguments.
var hostedCommands = []string{"cosign", "gh", "npm", "git", "go", "cmp"}

// The commands of docs/verify.md run in their order, as in the release workflow, for the
// version that is released. They fail for a download that was changed.
func TestVerifyRelease(t *testing.T) {
	testenv.SkipShort(t)
	files, bin := t.TempDir(), t.TempDir()
	const name = "fluxgate_1.2.3_linux_amd64"
	shell := func(folder, script string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash", append([]string{"-euc", script, "bash"}, args...)...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "FILES="+files, "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	program := func(name, script string) {
		write(t, bin, name, "#!/bin/bash\n"+script+"\n")
		if err := os.Chmod(filepath.Join(bin, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	program("curl", `cp "$FILES/$(basename "${!#}")" .`)
	for _, hosted := range hostedCommands {
		program(hosted, `echo "ran `+hosted+` $*"`)
	}
	write(t, files, name+".cdx.json", `{"components":[{"bom-ref":"pkg:golang/std@1.26.8"}]}`)
	write(t, files, "checksums.txt.sigstore.json", "{}")
	if out, err := shell(files, `mkdir `+name+` && cp "$1" `+name+`/fluxgate && tar czf `+name+`.tar.gz `+name+` && sha256sum *.tar.gz *.cdx.json > checksums.txt`, testenv.Fluxgate(t)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	script, err := filepath.Abs("../../.ci/verify-release")
	if err != nil {
		t.Fatal(err)
	}
	out, err := shell(t.TempDir(), `"$1" v1.2.3`, script)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	identity := "https://github.com/fluxgate/fluxgate/.github/workflows/release.yml@refs/tags/v1.2.3"
	for _, want := range []string{
		name + ".tar.gz: OK\n", name + ".cdx.json: OK\n", "\npkg:golang/std@1.26.8\n",
		"ran cosign verify-blob --certificate-identity " + identity,
		"ran gh attestation verify " + name + ".tar.gz --repo fluxgate/fluxgate --cert-identity " + identity,
		"ran cmp again " + name + "/fluxgate\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if _, err := os.Stat("../../.github/workflows/release.yml"); err != nil {
		t.Error(err)
	}
	if out, err := shell(files, "echo changed >> "+name+".tar.gz"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := shell(t.TempDir(), `"$1" v1.2.3`, script); err == nil || !strings.Contains(out, name+".tar.gz: FAILED") {
		t.Errorf("a changed archive is verified: %v\n%s", err, out)
	}
}
