package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// inMemory are settings of a server of rules in a file, on free ports.
func inMemory(file string) []string {
	return []string{
		"--set", "redis.enabled=false", "--set", "mongo.enabled=false", "--set", "rules.file=" + file,
		"--set", "server.http=127.0.0.1:0", "--set", "server.admin=127.0.0.1:0",
	}
}

// Redis that cannot be used is one problem, also if the rules are in it.
func TestDoctor_RedisAway(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	if _, err := redis.Do(t.Context(), "ACL", "SETUSER", "reader", "on", ">secret-1", "~*", "+@all", "-eval", "-evalsha"); err != nil {
		t.Fatal(err)
	}
	for name, uri := range map[string]string{"away": "redis://127.0.0.1:1", "without permissions": strings.Replace(redis.URI(), "//", "//reader:secret-1@", 1)} {
		code, out, errs := call(t, "doctor", "--set", "redis.uri="+uri, "--set", "server.http=127.0.0.1:0", "--set", "server.admin=127.0.0.1:0")
		if code != exitTrouble || strings.Count(out, "wrong") != 1 || !strings.Contains(tidy(out), "rules not checked: they are in Redis") {
			t.Errorf("%s: exit code %d\n%s%s", name, code, out, errs)
		}
	}
}

// A rule that ended long ago is named.
func TestDoctor_EndedRule(t *testing.T) {
	rule := func(id string, end time.Duration) string {
		return fmt.Sprintf("  - {id: %s, until: %s, bands: [{capacity: 5, refill: 1m}]}\n", id, time.Now().Add(end).UTC().Format(time.RFC3339))
	}
	file := write(t, t.TempDir(), "rules.yaml", "id: api-limits\nrules:\n"+rule("old", -8*24*time.Hour)+rule("recent", -time.Hour)+rule("coming", time.Hour))
	_, out, _ := call(t, append([]string{"doctor"}, append(inMemory(file), "--set", "server.http=127.0.0.1:0")...)...)
	if strings.Count(out, "has ended at") != 1 || !strings.Contains(out, `rule "old" of rule set "api-limits" has ended at`) {
		t.Error(out)
	}
}

// A rules.file that is not there is an error of config check, and the doctor
// says what to do about it.
func TestDoctor_MissingRulesFile(t *testing.T) {
	missing := t.TempDir() + "/rules.yaml"
	if code, out, _ := call(t, append([]string{"doctor"}, inMemory(missing)...)...); code != exitTrouble || !strings.Contains(out, "write it, or correct rules.file") {
		t.Errorf("doctor: exit code %d\n%s", code, out)
	}
	code, out, errs := call(t, append([]string{"config", "check"}, inMemory(missing)...)...)
	if code != exitError || !strings.Contains(errs, missing+": no such file") {
		t.Errorf("config check: exit code %d\n%s%s", code, out, errs)
	}
}

// Rules that a server could not load are an error of config check.
func TestConfigCheck_BrokenRules(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "good.yaml", ruleSet("api-limits", 2))
	for name, text := range map[string]string{
		"no YAML": "id: [", "no rule set": "id: broken\nrules:\n  - {id: r, bands: []}\n", "the id of another": ruleSet("api-limits", 3),
	} {
		file := write(t, folder, "broken.yaml", text)
		for _, at := range []string{folder, file} {
			if at == file && name == "the id of another" {
				continue
			}
			if code, out, errs := call(t, append([]string{"config", "check"}, inMemory(at)...)...); code != exitError || out != "" || !strings.Contains(errs, "broken.yaml") {
				t.Errorf("%s: exit code %d\n%s%s", name, code, out, errs)
			}
		}
	}
}

// Rules that say WAIT_FOR_REFILL do not wait where waiting is off.
func TestDoctor_WaitingIsOff(t *testing.T) {
	file := write(t, t.TempDir(), "rules.yaml", strings.Replace(ruleSet("api-limits", 2), "limitScope", "onLimitExceed: WAIT_FOR_REFILL\n    limitScope", 1))
	args := append([]string{"doctor"}, inMemory(file)...)
	const says = "WAIT_FOR_REFILL is off"
	if _, out, _ := call(t, args...); !strings.Contains(out, says) || !strings.Contains(out, "api-limits-rule") {
		t.Errorf("nothing about waiting:\n%s", out)
	}
	if _, out, _ := call(t, append(args, "--set", "wait-for-refill.enabled=true")...); strings.Contains(out, says) {
		t.Errorf("waiting is on:\n%s", out)
	}
}

// An edit of documents in MongoDB that servers refuse is reported, in the
// default rule set and in others.
func TestDoctor_RefusedEdit(t *testing.T) {
	database := "doctor-edit"
	uri := testenv.SharedMongo(t).URI()
	settings := []string{"--set", "redis.enabled=false", "--set", "mongo.uri=" + uri, "--set", "mongo.database=" + database, "--set", "server.http=127.0.0.1:0", "--set", "server.admin=127.0.0.1:0"}
	folder := t.TempDir()
	for _, id := range []string{"api-limits", "other"} {
		file := write(t, folder, id+".yaml", ruleSet(id, 2))
		if code, out, errs := call(t, append([]string{"rules", "apply", "--yes", "--direct", "-f", file}, settings...)...); code != exitOK {
			t.Fatalf("exit code %d\n%s%s", code, out, errs)
		}
	}
	if code, out, _ := call(t, append([]string{"doctor"}, settings...)...); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(t.Context()) }()
	for _, id := range []string{"api-limits", "other"} {
		_, err := client.Database(database).Collection("rate_limit_rules").UpdateOne(t.Context(),
			bson.D{{Key: "_id", Value: id + "-rule"}}, bson.D{{Key: "$set", Value: bson.D{{Key: "bands.0.capacity", Value: "two"}}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	code, out, _ := call(t, append([]string{"doctor"}, settings...)...)
	for _, says := range []string{`documents of rule set "api-limits"`, `documents of rule set "other"`, "must be a whole number"} {
		if code != exitTrouble || !strings.Contains(out, says) {
			t.Errorf("exit code %d, and nothing about %s\n%s", code, says, out)
		}
	}
}

// The doctor looks at MongoDB.
func TestDoctor_Mongo(t *testing.T) {
	mongo := testenv.SharedMongo(t)
	args := []string{"doctor", "--set", "redis.enabled=false", "--set", "mongo.uri=" + mongo.URI(), "--set", "mongo.database=doctor"}
	code, out, _ := call(t, args...)
	if code != exitTrouble || !strings.Contains(out, "there is no rule set \"api-limits\" in mongo\n") || !strings.Contains(out, "present") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

// With only Redis the rules are in Redis. The remedy for a missing rule set names the ways to
// have one.
func TestDoctor_OnlyRedis(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	code, out, errs := call(t, "doctor", "--set", "redis.uri="+redis.URI(), "--set", "server.http=127.0.0.1:0", "--set", "server.admin=127.0.0.1:0")
	if code != exitTrouble || !strings.Contains(out, "there is no rule set \"api-limits\" in redis\n") || strings.Contains(out+errs, "MongoDB") ||
		!strings.Contains(out, "rules apply -f FILE") || !strings.Contains(out, "rules.file, mongo.uri") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
}

// An unreachable rule source is not reported as wrong rules.
func TestDoctor_SourceUnreachable(t *testing.T) {
	for says, settings := range map[string][]string{
		"not checked: they are in Redis":   {"redis.uri=redis://" + testenv.FreeAddr(t), "rules.source=redis", "mongo.enabled=false"},
		"cannot read the rules in mongo: ": {"redis.enabled=false", "mongo.uri=mongodb://" + testenv.FreeAddr(t) + "/?serverSelectionTimeoutMS=100"},
	} {
		args := []string{"doctor"}
		for _, s := range settings {
			args = append(args, "--set", s)
		}
		code, out, _ := call(t, args...)
		if code != exitTrouble || !strings.Contains(out, says) || !strings.Contains(out, "and that this machine can reach it") ||
			strings.Contains(out, "correct the rules") || strings.Contains(out, "indexes") {
			t.Errorf("exit code %d\n%s", code, out)
		}
	}
}

// The doctor looks at Redis, its settings and what the servers of a fleet agree on.
func TestDoctor_Redis(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	args := append(append([]string{"doctor"}, inMemory("../../examples/rules.yaml")...), "--set", "redis.enabled=true", "--set", "redis.uri="+redis.URI(), "--set", patient)
	code, out, _ := call(t, args...)
	for _, says := range []string{"this server agrees with the others", "is a master of version", "answers after", "rules: 2"} {
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

// The doctor reads files of envoyproxy/ratelimit. They need not have the default rule set.
func TestDoctor_EnvoyFiles(t *testing.T) {
	good := write(t, t.TempDir(), "a.yaml", "domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n")
	bad := write(t, t.TempDir(), "b.yaml", "domain: b\nlimits: []\n")
	for file, want := range map[string]string{
		good: "the files in " + good + " are valid", bad: bad + ":2:9: limits: unknown key", good + "x": "write it, or correct rules.envoy-files",
	} {
		_, out, _ := call(t, "doctor", "--set", "redis.enabled=false", "--set", "mongo.enabled=false", "--set", "rules.envoy-files="+file)
		if !strings.Contains(out, want) {
			t.Errorf("%s: doctor says\n%s\nwant %q", file, out, want)
		}
	}
	if code, _, errs := call(t, "config", "check", "--set", "rules.envoy-files="+good+"x"); code != exitError || !strings.Contains(errs, good+"x: no such file or directory") {
		t.Errorf("config check: %d\n%s", code, errs)
	}
}
