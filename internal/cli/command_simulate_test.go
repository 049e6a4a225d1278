package cli

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/simulate"
)

const simulated = "../../examples/simulate/"

// Every way to call it wrongly says what to do.
func TestSimulate_Usage(t *testing.T) {
	folder := t.TempDir()
	two := write(t, folder, "two.yaml", "ruleSets:\n"+indent(ruleSet("a", 2))+indent(ruleSet("b", 2)))
	rules, log, empty := simulated+"proposed.yaml", simulated+"access.log", write(t, folder, "empty.log", "")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--log " + log, exitUsage, "--rules FILE"},
		{"--rules " + rules, exitUsage, "--log FILE"},
		{"--rules - --log " + log, exitUsage, "rules are read from files"},
		{"--rules " + rules + " --log " + log + " --field colour=x", exitUsage, "not a part of a request"},
		{"--rules " + rules + " --log " + log + " --rule-set a/b", exitUsage, "has no rule set a/b"},
		{"--rules " + rules + " --log " + log + " --rule-set other", exitUsage, "it has api-limits"},
		{"--rules " + rules + " --against " + two + " --log " + log, exitUsage, "has no rule set api-limits: it has a, b"},
		{"--rules " + two + " --log " + log, exitUsage, "choose one with --rule-set: a, b"},
		{"--rules " + folder + "/none.yaml --log " + log, exitError, "none.yaml"},
		{"--rules " + rules + " --log " + folder + "/none.log", exitError, "none.log"},
		{"--rules " + rules + " --log " + folder, exitError, "is a directory"},
		{"--rules " + rules + " --log " + rules, exitError, "the logs have no line that can be parsed: they must be in the combined format"},
		{"--rules " + rules + " --log " + empty, exitError, "fluxgate: the logs have no line"},
	} {
		code, out, errs := call(t, append([]string{"simulate"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("simulate %s: exit code %d\n%s%s", c.args, code, out, errs)
		}
	}
}

// Standard input and files give the same numbers, in all formats of
// the output.
func TestSimulate_InputsAndOutputs(t *testing.T) {
	text, err := os.ReadFile(simulated + "access.log")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"simulate", "--rules", simulated + "proposed.yaml", "--against", simulated + "current.yaml", "--rule-set", "api-limits", "-o", "json", "--log"}
	var first simulate.Report
	for i, input := range []string{"", string(text)} {
		log := "-"
		if input == "" {
			log = simulated + "access.log"
		}
		code, out, errs := callWith(t, strings.NewReader(input), append(args, log)...)
		var r simulate.Report
		if err := json.Unmarshal([]byte(out), &r); code != exitOK || err != nil || errs != "" {
			t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
		}
		if i == 0 {
			first = r
		}
		if r.Requests != 87 || *r.Difference != *first.Difference || *r.Difference != (simulate.Difference{Against: "api-limits", Newly: 7, NoLonger: 14, Both: 7, Neither: 59}) {
			t.Errorf("%+v", r)
		}
	}
}

// Rotated logs are compressed, and their names do not tell how. A log that cannot be read is an error, also
// beside others.
func TestSimulate_CompressedLogs(t *testing.T) {
	text, err := os.ReadFile(simulated + "access.log")
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	for range 2 { // as two files that were put together
		w := gzip.NewWriter(&zipped)
		_, _ = w.Write(text)
		_ = w.Close()
	}
	folder := t.TempDir()
	binary := write(t, folder, "binary.log", "\x00\xff\xfe\x01 \n\xff\n")
	args := []string{"simulate", "--rules", simulated + "proposed.yaml", "-o", "json", "--log", simulated + "access.log"}
	for _, c := range []struct {
		log, says string
		code      int
		requests  int64
	}{
		{write(t, folder, "access.log.1", zipped.String()), "", exitOK, 3 * 87},
		{write(t, folder, "access.log.2.gz", string(text)), "", exitOK, 2 * 87},
		{write(t, folder, "empty.log", ""), "", exitOK, 87},
		{binary, "not in the numbers above: " + binary + "\nlogs must be in the combined format", exitError, 87},
		{write(t, folder, "cut.gz", zipped.String()[:zipped.Len()-9]), "cut.gz: cannot be read beyond line", exitError, 0},
		{write(t, folder, "access.log.zst", "\x28\xb5\x2f\xfd\x04\x00\x01"), "access.log.zst: it is compressed with zstd, which is not read", exitError, 0},
	} {
		code, out, errs := call(t, append(args, c.log)...)
		var r simulate.Report
		if err := json.Unmarshal([]byte(out), &r); out != "" && err != nil {
			t.Error(err)
		}
		if code != c.code || r.Requests != c.requests || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit code %d, %d requests\n%s", c.log, code, r.Requests, errs)
		}
	}
	if _, out, _ := call(t, "simulate", "--rules", simulated+"proposed.yaml", "--log", simulated+"access.log", "--log", binary); strings.ContainsRune(out, '\ufffd') {
		t.Errorf("binary data is shown:\n%s", out)
	}
}

// The rules in use can be those of a server.
func TestSimulate_AgainstServer(t *testing.T) {
	folder := t.TempDir()
	token := write(t, folder, "token", "reader-of-rules\n")
	hash := sha256.Sum256([]byte("reader-of-rules"))
	tokens := write(t, folder, "tokens.yaml", fmt.Sprintf("tokens:\n  - {name: reader, sha256: %x, roles: [read]}\n", hash))
	address, _ := serveWith(t, "redis.enabled=false", "mongo.enabled=false", "rules.file="+simulated+"current.yaml", "server.auth.tokens-file="+tokens)
	simulate := func(args ...string) (int, string, string) {
		return call(t, append([]string{"simulate", "--rules", simulated + "proposed.yaml", "--log", simulated + "access.log", "--against"}, args...)...)
	}
	_, want, _ := simulate(simulated + "current.yaml")
	if code, out, errs := simulate("http://"+address, "--token-file", token); code != exitOK || out != want || !strings.Contains(out, "NO LONGER") {
		t.Errorf("exit code %d\n%s%s\nwant\n%s", code, out, errs, want)
	}
	for says, args := range map[string][]string{
		"use --token-file or FLUXGATE_TOKEN":                            {"http://" + address},
		"see fluxgate rules list for the existing rule sets":            {"http://" + address, "--token-file", token, "--rules", write(t, folder, "other.yaml", ruleSet("other", 2))},
		"is a server running at http://127.0.0.1:1 (--against)? see":    {"http://127.0.0.1:1"},
		"--against: creating a client: the address must be of the form": {"ftp://" + address},
	} {
		if code, out, errs := simulate(args...); code == exitOK || out != "" || !strings.Contains(errs, says) {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
	}
}

// What a log says cannot write to the terminal, and lines out of order are counted.
func TestSimulate_HostileLog(t *testing.T) {
	line := func(minute int, user string) string {
		return fmt.Sprintf(`192.0.2.1 - %s [16/Nov/2026:15:%02d:00 +0000] "GET /api/x HTTP/1.1" 429 1`+"\n", user, minute)
	}
	log := "\x1b[2J\x07 first\n" + strings.Repeat(line(9, "\x1b[31mred"), 30) + line(2, "x") + strings.Repeat("z", 70_000) + "\n"
	code, out, errs := callWith(t, strings.NewReader(log), "simulate", "--rules", simulated+"proposed.yaml", "--log", "-")
	for _, want := range []string{
		"-:1: first line that was skipped: the time is missing or cannot be read\n  \ufffd[2J\ufffd first\n", "per-user limit 31 5 (16.1 %)\n",
		"LOG LINES REQUESTS SKIPPED OUT OF ORDER\n- 33 31 2 1\n",
	} {
		if !strings.Contains(spaces.ReplaceAllString(out, " "), spaces.ReplaceAllString(want, " ")) {
			t.Errorf("it does not print %q", want)
		}
	}
	if code != exitOK || strings.ContainsAny(out+errs, "\x1b\x07") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// Progress is shown on a terminal only, and removed.
func TestSimulate_Progress(t *testing.T) {
	for _, visible := range []bool{true, false} {
		var out bytes.Buffer
		line := newProgress(&out)
		line.visible = visible
		_, _ = line.Write(make([]byte, 1_000_000)) // too early
		line.shown = time.Now().Add(-time.Second)
		_, _ = line.Write(make([]byte, 1_500_000))
		line.clear()
		const want = "\r\x1b[K2 MB read\r\x1b[K"
		if got := out.String(); visible != (got == want) || !visible && got != "" {
			t.Errorf("visible %v: %q", visible, got)
		}
	}
}
