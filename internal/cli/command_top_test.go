package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/fluxgate/fluxgate/admin"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

// hostileFleet has control characters, wide characters and extreme numbers in every
// text of a server.
func hostileFleet() *adminAnswers {
	const evil = `a\u001b[2J\u009b31m\u202e\u007f\r\nb 田中😀`
	long := strings.Repeat("x", 500)
	node := `{"node":"` + evil + `","open":true,"since":"0001-01-01T00:00:00Z","error":"` + evil + `"}`
	return &adminAnswers{
		live: `{"scope":"` + evil + `","servers":-1,"stepSeconds":9223372036854775807,"end":"0001-01-01T00:00:00Z","problem":"` + evil + `",
 "series":{"allowed":[1e308,null,-1e308],"limited":null},"rules":[
 {"ruleSet":"` + evil + `","rule":"` + evil + `","allowed":1e308,"limited":-1e308},{"ruleSet":"` + long + `","rule":"` + long + `","shadow":999949}]}`,
		fleet: `{"servers":[{"name":"` + evil + `","version":"` + evil + `","draining":true,"p50Ms":1e308,"p99Ms":-1e308,"redis":[` + node + `]},
 {"name":"` + long + `","version":"` + long + `","redis":[{"node":"` + long + `","open":true}]}],
 "total":{"degraded":1e308},"differing":[{"ruleSet":"` + evil + `","revisions":[-9223372036854775808]}],"problem":"` + long + `"}`,
		callers: `{"outcome":"limited","since":"9999-01-01T00:00:00Z","problem":"` + evil + `","callers":[
 {"ruleSet":"` + evil + `","rule":"` + evil + `","key":"` + evil + evil + `","count":18446744073709551615,"error":18446744073709551615,"perSecond":1e308},
 {"ruleSet":"s","rule":"r","identity":"` + evil + `","key":"k"}]}`,
	}
}

// Without a terminal the numbers are printed once, cut at COLUMNS.
func TestTop_Once(t *testing.T) {
	quiet := &adminAnswers{
		live:    `{"scope":"server","servers":1,"stepSeconds":2,"end":"2026-11-16T15:00:00Z","series":{},"rules":[]}`,
		fleet:   `{"servers":[{"name":"gw-1","version":"1.4.0","revisions":{"api-limits":0}}],"total":{},"differing":[]}`,
		callers: `{"outcome":"limited","since":"2026-11-16T14:59:00Z","callers":[]}`,
	}
	fresh := &adminAnswers{live: quiet.live, fleet: strings.Replace(quiet.fleet, `"api-limits":0`, "", 1), callers: quiet.callers}
	alone := &adminAnswers{live: quiet.live, callers: quiet.callers, fleet: `{"servers":[{"name":"gw-1","version":"1.4.0","reportedAt":"2026-11-16T15:00:00Z",
 "revisions":{"api-limits":1},"redis":[{"node":"10.0.0.2:6379","open":true,"since":"2026-11-16T14:59:51Z"}]}],
 "total":{},"differing":[],"problem":"Redis does not answer: these are the numbers of this server only."}`}
	unhealthy := &adminAnswers{live: quiet.live, callers: quiet.callers, fleet: `{"servers":[
 {"name":"gw-1","status":"degraded","reason":"10.0.0.2:6379: OOM command not allowed","revisions":{"api-limits":1},"redis":[{"node":"10.0.0.2:6379","open":false}]},
 {"name":"gw-2","status":"degraded","reason":"10.0.0.2:6379: OOM command not allowed","revisions":{"api-limits":1}},
 {"name":"gw-3","status":"down","revisions":{"api-limits":1}},
 {"name":"gw-4","status":"degraded","reason":"10.0.0.3:6379: i/o timeout","revisions":{"api-limits":1},"redis":[{"node":"10.0.0.3:6379","open":true,"error":"i/o timeout"}]},
 {"name":"gw-5","status":"up","revisions":{"api-limits":1}}],"total":{},"differing":[]}`}
	outage := busyFleet()
	outage.fleet = strings.Replace(outage.fleet, `"differing"`, `"problem":"Redis does not answer: the numbers are of this server only","differing"`, 1)
	outage.live = strings.Replace(outage.live, `"rules"`, `"problem":"Redis does not answer: the numbers are of this server only","rules"`, 1)
	for _, c := range []struct {
		name, columns string
		answers       *adminAnswers
		flags         []string
	}{
		{"once-60", "60", busyFleet(), nil},
		{"once-80", "", busyFleet(), []string{"--once"}},
		{"once-140", "140", busyFleet(), nil},
		{"quiet", "", quiet, nil},
		{"without-rules", "", fresh, nil},
		{"unhealthy", "", unhealthy, nil},
		{"outage", "", outage, nil},
		{"outage-seen-by-one", "", alone, nil},
		{"hostile", "", hostileFleet(), nil},
		{"json", "", busyFleet(), []string{"--output", "json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("COLUMNS", c.columns)
			code, out, errs := call(t, append([]string{"top", "--server", c.answers.start(t)}, c.flags...)...)
			if code != exitOK || errs != "" {
				t.Fatalf("exit code %d: %s", code, errs)
			}
			golden(t, "top/"+c.name, out)
		})
	}
}

// JSON has the three answers of the server.
func TestTop_JSON(t *testing.T) {
	answers := busyFleet()
	_, out, _ := call(t, "top", "--output", "json", "--server", answers.start(t))
	var got struct{ Live, Fleet, Callers json.RawMessage }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	same[admin.Live](t, got.Live, answers.live)
	same[admin.Fleet](t, got.Fleet, answers.fleet)
	same[admin.Callers](t, got.Callers, answers.callers)
}

// same compares two texts as JSON of a type.
func same[T any](t *testing.T, got json.RawMessage, want string) {
	t.Helper()
	var a, b T
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatal(err)
	}
	one, _ := json.Marshal(a)
	other, _ := json.Marshal(b)
	if string(one) != string(other) {
		t.Errorf("%s\nwant\n%s", one, other)
	}
}

// In a window of any size no line is too wide, there are no more lines than rows, and
// no text of the server controls the terminal.
func TestTop_AnySize(t *testing.T) {
	for name, server := range map[string]*adminAnswers{"busy": busyFleet(), "hostile": hostileFleet()} {
		answers := server.decode(t)
		for width := 1; width < 200; width++ {
			for _, height := range []int{0, 1, 2, 5, 10, 24, 60} {
				lines := answers.lines(width, height, nil)
				if height > 0 && len(lines) > height {
					t.Fatalf("%s: %d lines in %d rows", name, len(lines), height)
				}
				for _, l := range lines {
					if cells(l.text) > width || strings.ContainsFunc(l.text, func(r rune) bool { return !unicode.IsGraphic(r) }) {
						t.Fatalf("%s, width %d: %q", name, width, l.text)
					}
				}
			}
		}
	}
}

// In 24 rows there are rules and callers, however many problems there are.
func TestTop_ManyProblems(t *testing.T) {
	answers := &topAnswers{&admin.Live{}, &admin.Fleet{}, &admin.Callers{}}
	for range 50 {
		answers.Live.Rules = append(answers.Live.Rules, admin.RuleRates{RuleSet: "s", Rule: "rule"})
		answers.Callers.Callers = append(answers.Callers.Callers, admin.Caller{Identity: "caller"})
		answers.Fleet.Servers = append(answers.Fleet.Servers, admin.Server{Name: "gw", Draining: true, Revisions: map[string]int64{"s": 1}})
	}
	shown := map[string]int{}
	for _, l := range answers.lines(80, 24, nil) {
		for _, word := range []string{"s/rule", "caller ", "shutting down", "and 45 more problems"} {
			shown[word] += strings.Count(l.text, word)
		}
	}
	if shown["s/rule"] < 4 || shown["caller "] < 4 || shown["shutting down"] != maxHealth || shown["and 45 more problems"] != 1 {
		t.Errorf("%v", shown)
	}
}

// An error at the start ends the command and says what to do.
func TestTop_Errors(t *testing.T) {
	refusing := busyFleet()
	refusing.fail.Store(http.StatusUnauthorized)
	other := (&adminAnswers{live: "{}"}).start(t)
	for _, c := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"--interval 100ms", exitUsage, "--interval must be at least 500ms"},
		{"--output xml", exitUsage, "use one of table, json, yaml"},
		{"--ca-file x --server http://127.0.0.1:1", exitUsage, "need a server at https://"},
		{"--server 127.0.0.1:1", exitError, "is a server running at http://127.0.0.1:1? see fluxgate serve --help"},
		{"--server " + refusing.start(t), exitError, "the server requires authentication: use --token-file"},
		{"--server " + other, exitError, "not an answer of the admin API"},
	} {
		code, out, errs := call(t, append([]string{"top"}, strings.Fields(c.args)...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.stderr) || strings.Contains(errs, "\x1b") {
			t.Errorf("top %s: exit code %d\n%s%s", c.args, code, out, errs)
		}
	}
}

// The commands in docs/operations.md print what it shows, for the fleet of the tests.
func TestDocs_Top(t *testing.T) {
	testenv.SkipShort(t)
	folder := programFolder(t)
	environ := append(os.Environ(), "COLUMNS=", "PATH="+folder+":"+os.Getenv("PATH"), "FLUXGATE_ADMIN="+busyFleet().start(t))
	for _, s := range sessionSteps(t, "docs/operations.md", "Live numbers") {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", s.command)
		cmd.Env = environ
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != s.output {
			t.Errorf("$ %s\nprints\n%s\nand not\n%s\n%v", s.command, out, s.output, err)
		}
	}
}

// A real server shows who is limited to the role identities only. The token is that of
// the environment.
func TestTop_Server(t *testing.T) {
	testenv.SkipShort(t)
	const reader, operator = "the-token-of-a-reader", "the-token-of-an-operator"
	digest := func(token string) string { sum := sha256.Sum256([]byte(token)); return hex.EncodeToString(sum[:]) }
	folder := t.TempDir()
	admin, http := serveWith(t, append(slices.DeleteFunc(inRedis(t), func(s string) bool { return s == "rules.source=redis" }),
		"rules.file="+write(t, folder, "rules.yaml", ruleSet("api-limits", 2)),
		"server.auth.tokens=[{name: r, sha256: "+digest(reader)+", roles: [read, check]}, {name: o, sha256: "+digest(operator)+", roles: [read, identities]}]")...)
	t.Setenv("FLUXGATE_ADMIN", "http://"+admin)
	t.Setenv("FLUXGATE_TOKEN", reader)
	for range 5 {
		if code, _, errs := call(t, "check", "--server", "http://"+http, "--user", "ada\x1b[2J", "--path", "/"); code != exitOK && code != exitRejected {
			t.Fatal(errs)
		}
	}
	shows := func(token string, parts ...string) (out string) {
		t.Setenv("FLUXGATE_TOKEN", token)
		testenv.Eventually(t, "top shows "+strings.Join(parts, ", "), func() bool {
			_, out, _ = call(t, "top")
			return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(out, part) })
		})
		return out
	}
	shows(operator, "1 server  version test", "no problems", "user ada", "api-limits/api-limits-rule  ", "  3  ")
	if out := shows(reader, "key ", "  3  "); strings.Contains(out, "ada") {
		t.Errorf("a reader sees\n%s", out)
	}
	write(t, folder, "rules.yaml", "ruleSets: [")
	if out := shows(reader, "health is degraded on all servers: rule set api-limits: "); strings.Contains(out, "no problems") {
		t.Errorf("top shows\n%s", out)
	}
}
