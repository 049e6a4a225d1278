package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestExitCodesAndWords(t *testing.T) {
	folder := t.TempDir()
	good, bad := filepath.Join(folder, "good.yaml"), filepath.Join(folder, "bad.yaml")
	for file, text := range map[string]string{
		good: "fluxgate:\n  redis: {uri: \"redis://:hidden-password@localhost\"}\n",
		bad:  "fluxgate:\n  redis:\n    timeout: soon\n    prefx: x\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args   []string
		code   int
		says   string
		onward bool // on stdout
	}{
		{[]string{"version"}, exitOK, "fluxgate dev", true},
		{[]string{"--help"}, exitOK, "Exit codes", true},
		{[]string{"serve", "--help"}, exitOK, "SIGHUP", true},
		{[]string{"completion", "bash"}, exitOK, "bash completion", true},
		{[]string{"serve", "--colour"}, exitUsage, "unknown flag: --colour", false},
		{[]string{"sreve"}, exitUsage, `unknown command "sreve": did you mean serve?`, false},
		{[]string{"rules", "lst"}, exitUsage, "did you mean list", false},
		{[]string{"config", "shout"}, exitUsage, "see fluxgate config --help", false},
		{[]string{"rules", "list", "--colour"}, exitUsage, "see fluxgate rules list --help", false},
		{[]string{"version", "please"}, exitUsage, "takes no arguments", false},
		{[]string{"config", "check", "-c", good}, exitOK, "the configuration is good", true},
		{[]string{"config", "check", "-c", bad}, exitError, "bad.yaml:3:14", false},
		{[]string{"config", "check", "-c", bad}, exitError, "did you mean prefix?", false},
		{[]string{"config", "check", "-c", folder + "/none.yaml"}, exitError, "none.yaml", false},
		{[]string{"config", "print", "-c", good}, exitOK, "max-concurrent-waits", true},
		{[]string{"config", "print", "-c", good, "-o", "json"}, exitOK, `"max-concurrent-waits"`, true},
		{[]string{"check", "--ip", "nowhere"}, exitUsage, "is not an address", false},
		{[]string{"check", "--cost", "-1"}, exitUsage, "--cost: -1 is not a number of tokens\n", false},
		{[]string{"check", "--rule-set", "a/b"}, exitUsage, "is not the id of a rule set", false},
		{[]string{"check", "-s", "ftp://nowhere"}, exitUsage, "must be http://host:port", false},
		{[]string{"check", "-o", "xml"}, exitUsage, "table, json or yaml", false},
		{[]string{"check", "-s", "http://" + testenv.FreeAddr(t)}, exitError, "is a server running", false},
		{append([]string{"doctor"}, inMemory("../../examples/rules.yaml")...), exitOK, "2 rules", true},
		{append([]string{"doctor", "-o", "yaml"}, inMemory("../../examples/rules.yaml")...), exitOK, "verdict: ok", true},
		{[]string{"doctor", "--set", "redis.enabled=false", "--set", "mongo.enabled=false", "--set", "rules.file=" + bad}, exitTrouble, "correct the rules", true},
	} {
		code, stdout, stderr := call(t, c.args...)
		said := stderr
		if c.onward {
			said = stdout
		}
		if code != c.code || !strings.Contains(said, c.says) {
			t.Errorf("fluxgate %s: exit code %d\n%s%s", strings.Join(c.args, " "), code, stdout, stderr)
		}
		if strings.Contains(stdout+stderr, "hidden-password") {
			t.Errorf("fluxgate %s shows a password", strings.Join(c.args, " "))
		}
	}
}

func TestACheckThatIsNotSentIsNotBlamedOnTheServer(t *testing.T) {
	code, _, errs := call(t, "check", "--user", strings.Repeat("x", 300<<10), "-s", "http://127.0.0.1:1")
	if code != exitError || !strings.HasSuffix(errs, "at most 262144 can be sent\n") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}

func TestTheDoctorLooksAtMongo(t *testing.T) {
	mongo := testenv.SharedMongo(t)
	args := []string{"doctor", "--set", "redis.enabled=false", "--set", "mongo.uri=" + mongo.URI(), "--set", "mongo.database=doctor"}
	code, out, _ := call(t, args...)
	if code != exitTrouble || !strings.Contains(out, "there is no rule set \"api-limits\" in mongo\n") || !strings.Contains(out, "they are there") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func TestTheDoctorKnowsASourceThatIsAwayFromRulesThatAreWrong(t *testing.T) {
	for _, settings := range [][]string{
		{"redis.uri=redis://" + testenv.FreeAddr(t), "rules.source=redis", "mongo.enabled=false"},
		{"redis.enabled=false", "mongo.uri=mongodb://" + testenv.FreeAddr(t) + "/?serverSelectionTimeoutMS=100"},
	} {
		args := []string{"doctor"}
		for _, s := range settings {
			args = append(args, "--set", s)
		}
		code, out, _ := call(t, args...)
		if code != exitTrouble || !strings.Contains(out, ", where the rules are, cannot be read: ") || !strings.Contains(out, "and that this machine reaches it") ||
			strings.Contains(out, "correct the rules") || strings.Contains(out, "indexes") {
			t.Errorf("exit code %d\n%s", code, out)
		}
	}
}

func TestTheDoctorLooksAtRedis(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	args := append(append([]string{"doctor"}, inMemory("../../examples/rules.yaml")...), "--set", "redis.enabled=true", "--set", "redis.uri="+redis.URI())
	code, out, _ := call(t, args...)
	for _, says := range []string{"this server agrees with the others", "is a master of version", "answers after", "Redis and this machine agree", "2 rules"} {
		if !strings.Contains(out, says) {
			t.Errorf("the doctor does not say %q:\n%s", says, out)
		}
	}
	if code != exitOK {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if _, err := redis.Do(t.Context(), "CONFIG", "SET", "maxmemory-policy", "allkeys-lru"); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := call(t, args...); !strings.Contains(out, "allkeys-lru") {
		t.Errorf("the doctor does not see an eviction policy that loses buckets:\n%s", out)
	}
	if code, out, _ := call(t, append(args, "--set", "redis.shards=7")...); code != exitTrouble || !strings.Contains(out, "number of shards") {
		t.Errorf("the doctor does not see that this server disagrees: %d\n%s", code, out)
	}
}
