package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/cli"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/spf13/cobra"
)

// A release has a script for each shell, a page for each command, and the licences
// of what is in the binary of any system. Two runs write the same.
func TestWrite_Files(t *testing.T) {
	testenv.SkipShort(t)
	t.Chdir("..")
	folder := filepath.Join(t.TempDir(), "release")
	files, err := contents("1.2.3", "2026-11-16")
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []map[string][]byte{{"man/fluxgate-gone.1.gz": nil}, files} {
		if err := write(folder, set); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(folder + "/man/fluxgate-gone.1.gz"); err == nil {
		t.Error("the page of a command that is gone is still there")
	}
	for name, part := range map[string]string{
		"completions/fluxgate.bash": "bash completion V2 for fluxgate",
		"completions/_fluxgate":     "#compdef fluxgate",
		"completions/fluxgate.fish": "complete -c fluxgate",
		"completions/fluxgate.ps1":  "Register-ArgumentCompleter -CommandName 'fluxgate'",
		"licences.txt":              "==== google.golang.org/grpc v",
		"man/fluxgate.1.gz":         "",
		"man/fluxgate-serve.1.gz":   "",
	} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || !strings.Contains(string(text), part) {
			t.Errorf("%s has no %q: %v", name, part, err)
		}
	}
	for _, part := range []string{"==== Go: LICENSE", "==== github.com/inconshreveable/mousetrap v", "==== the web console"} { // mousetrap is in the binary for Windows only
		if !bytes.Contains(files["licences.txt"], []byte(part)) {
			t.Errorf("licences.txt has no %q", part)
		}
	}
	again, err := contents("1.2.3", "2026-11-16")
	for name := range files {
		if err != nil || !bytes.Equal(files[name], again[name]) {
			t.Errorf("%s differs in a second run: %v", name, err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "bash", "-n", folder+"/completions/fluxgate.bash").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Every command has a page, and a page names the pages above and below it.
func TestManPages_Commands(t *testing.T) {
	pages := manPages(cli.Commands("1.2.3"), "1.2.3", "2026-11-16")
	for name, parts := range map[string][]string{
		"fluxgate":             {`.TH FLUXGATE 1 "2026-11-16" "fluxgate 1.2.3"`, `\fBfluxgate\-rules\fR(1)`, `\fB\-v\fR, \fB\-\-version\fR`, "Exit codes"},
		"fluxgate-rules":       {`\fBfluxgate rules COMMAND\fR`, `\fBfluxgate\fR(1)`, `\fBfluxgate\-rules\-apply\fR(1)`},
		"fluxgate-rules-apply": {`\fB\-f\fR, \fB\-\-file\fR \fIstringArray\fR`, `(default http://127.0.0.1:9090)`, ".EX\n  fluxgate rules apply"},
	} {
		for _, part := range parts {
			if !strings.Contains(pages[name], part) {
				t.Errorf("%s has no %q\n%s", name, part, pages[name])
			}
		}
	}
	for name := range pages {
		if strings.HasPrefix(name, "fluxgate-help") {
			t.Errorf("%s repeats what every page has", name)
		}
	}
}

// No text is read as a roff request.
func TestManPage_Escapes(t *testing.T) {
	cmd := &cobra.Command{Use: "probe", Short: "Try C:\\temp", Long: "First-rate.\n\n.SH not a heading\n'quoted'", Run: func(*cobra.Command, []string) {}}
	cmd.Flags().Int("depth", 3, "how `deep`\n.so deep")
	cmd.Flags().Bool("secret", false, "")
	_ = cmd.Flags().MarkHidden("secret")
	want := `.SH NAME
probe \- Try C:\etemp
.SH SYNOPSIS
\fBprobe [flags]\fR
.SH DESCRIPTION
First\-rate.
.PP
\&.SH not a heading
\&'quoted'
.SH OPTIONS
.TP
\fB\-\-depth\fR \fIdeep\fR
how deep
\&.so deep (default 3)
.TP
\fB\-h\fR, \fB\-\-help\fR
help for probe
`
	if got := manPage(cmd); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
