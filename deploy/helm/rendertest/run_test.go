package rendertest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

const limitOf5 = "id: api-limits\nrules:\n  - {id: all, limitScope: PER_IP, bands: [{label: hourly, capacity: 5, refill: 1h}]}\n"

// fiveAnHour are values with these rules.
var fiveAnHour = fmt.Sprintf("rules: {files: {rules.yaml: %q}}", limitOf5)

// patient gives Redis time on a busy machine.
const patient = "config: {redis: {timeout: 5s}}"

// running is a server that was started as the Deployment says.
type running struct {
	machine
	*testenv.Program
	container corev1.Container
	addresses map[int32]string // by the container's ports
}

// start starts the container of the Deployment.
func start(t *testing.T, found rendered, secrets map[string]map[string]string) running {
	t.Helper()
	testenv.SkipShort(t)
	addresses := listen(t, found)
	m := machine{t.TempDir(), found, secrets}
	server := found.server()
	container := server.spec.Containers[0]
	if err := m.mount(server, container); err != nil {
		t.Fatal(err)
	}
	for _, e := range m.environ(container) {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	return running{m, testenv.StartProgram(t, testenv.Fluxgate(t), m.args(container)...), container, addresses}
}

// probe sends the request of a probe and returns the status, or 0 without an answer.
func (r running) probe(probe *corev1.Probe) int {
	return get("http://"+r.addresses[containerPort(r.container, probe.HTTPGet.Port)]+probe.HTTPGet.Path, "")
}

// get returns the status of an answer, or 0 without one.
func get(url, bearer string) int {
	headers := map[string]string{}
	if bearer != "" {
		headers["Authorization"] = "Bearer " + bearer
	}
	status, _, _ := send(url, headers)
	return status
}

// request returns the status and the headers of an answer.
func request(t *testing.T, url string, headers map[string]string) (int, http.Header) {
	t.Helper()
	status, answer, err := send(url, headers)
	if err != nil {
		t.Fatal(err)
	}
	return status, answer
}

func send(url string, headers map[string]string) (int, http.Header, error) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	// Only the server of this test is asked, by an address that its certificate has not.
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header, err
}

// awaitReady waits until both probes succeed.
func (r running) awaitReady(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, "the server is ready", func() bool {
		return r.probe(r.container.ReadinessProbe) == 200 && r.probe(r.container.LivenessProbe) == 200
	})
}

// helmTest runs the pod of helm test and returns its output.
func (r running) helmTest(t *testing.T, more ...string) (string, error) {
	t.Helper()
	tested := one[corev1.Pod](r.found)
	if tested == nil {
		t.Fatal("there is no test")
	}
	container := tested.Spec.Containers[0]
	if err := r.mount(pod{spec: &tested.Spec}, container); err != nil {
		t.Fatal(err)
	}
	service := r.found.service()
	address := fmt.Sprintf("%s.%s.svc:%d", service.Name, namespace, service.Spec.Ports[0].Port)
	args := r.args(container)
	if !strings.Contains(strings.Join(args, " "), "://"+address) {
		t.Errorf("the test asks no Service: %q", args)
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], address, r.addresses[service.Spec.Ports[0].Port])
	}
	out, err := exec.CommandContext(t.Context(), testenv.Fluxgate(t), append(args, more...)...).CombinedOutput()
	return string(out), err
}

// A server starts with few values, takes rules that the kubelet changes, and drains within
// the time that the kubelet gives it.
func TestRun_Smallest(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	found := mustRender(t, smallest, "redis: {uri: '"+redis.URI()+"'}", patient, fiveAnHour, "drain: {delaySeconds: 2}")
	server := start(t, found, nil)
	server.awaitReady(t)
	if out, err := server.helmTest(t); err != nil || !strings.Contains(out, "allowed") {
		t.Errorf("%v\n%s", err, out)
	}
	if keys, err := redis.Do(t.Context(), "DBSIZE"); err != nil || keys == int64(0) {
		t.Errorf("Redis has %v keys, %v", keys, err)
	}
	// As in the runbooks, with kubectl exec.
	if out, err := exec.CommandContext(t.Context(), testenv.Fluxgate(t), "doctor").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}

	changed := map[string]string{"rules.yaml": strings.ReplaceAll(limitOf5, "capacity: 5", "capacity: 7")}
	if err := project(server.root+"/etc/fluxgate/rules", "..second", changed); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the changed rules are in effect", func() bool {
		out, err := server.helmTest(t)
		return err == nil && strings.Contains(out, "  7  ")
	})

	grace := time.Duration(*one[appsv1.Deployment](found).Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), grace)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- server.Stop(ctx) }()
	testenv.Eventually(t, "it is not ready", func() bool { return server.probe(server.container.ReadinessProbe) == 503 })
	if out, err := server.helmTest(t); err != nil {
		t.Errorf("it does not answer while it drains: %v\n%s", err, out)
	}
	if err := <-ended; err != nil {
		t.Errorf("it has not ended after %v: %v", grace, err)
	}
	if !strings.Contains(server.Log(), `"msg"`) {
		t.Error("the log is not JSON")
	}
}

// With all credentials a server uses each of them.
func TestRun_Secrets(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{MutualTLS: true, Users: []testenv.User{{Name: "fluxgate", Password: "secret"}}})
	secrets := testSecrets(t)
	secrets["redis-tls"] = secretOf(t, redis.Certificates())
	found := mustRender(t, smallest, fiveAnHour, `
redis:
  uri: rediss://fluxgate:$(REDIS_PASSWORD)@`+redis.Addr()+`
  existingSecret: redis
  passwordKey: password
  tls: {existingSecret: redis-tls, clientCertificate: true}
  keySecret: {existingSecret: key-secret}
receipts: {existingSecret: receipts}
events: {existingSecret: events}
tls: {existingSecret: tls}
auth: {tokens: {existingSecret: tokens}}
admin: {enabled: true}
grpc: {enabled: true}
serviceMonitor: {enabled: true, existingSecret: token}
test: {existingSecret: token}
networkPolicy: {enabled: true}
autoscaling: {enabled: true}`)
	server := start(t, found, secrets)
	server.awaitReady(t)
	if out, err := server.helmTest(t); err != nil || !strings.Contains(out, "allowed") {
		t.Errorf("%v\n%s", err, out)
	}
	if keys, err := redis.Do(t.Context(), "DBSIZE"); err != nil || keys == int64(0) {
		t.Errorf("Redis has %v keys, %v", keys, err)
	}
	metrics, admin := "http://"+server.addresses[9102]+"/metrics", "https://"+server.addresses[9090]+"/v1/rule-sets"
	for _, url := range []string{metrics, admin} {
		if status := get(url, ""); status != 401 {
			t.Errorf("%s without a token: %d", url, status)
		}
		if status := get(url, token); status != 200 {
			t.Errorf("%s with a token: %d", url, status)
		}
	}
	connection, err := tls.Dial("tcp", server.addresses[8081], &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatalf("gRPC: %v", err)
	}
	connection.Close()
}

// A changed Secret with credentials is used without a restart: the user before it can be deleted.
func TestRun_RotatedCredentials(t *testing.T) {
	redis := testenv.StartStandalone(t, testenv.Config{Users: []testenv.User{{Name: "operator", Password: "secret"}}})
	do := func(args ...any) any {
		t.Helper()
		answer, err := redis.Do(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	login := func(user string) map[string]string {
		do("ACL", "SETUSER", user, "on", ">password-of-"+user, "~*", "&*", "+@all")
		return map[string]string{"username": user, "password": "password-of-" + user}
	}
	found := mustRender(t, smallest, patient, fiveAnHour, `
redis: {uri: 'redis://`+redis.Addr()+`', credentials: {existingSecret: login, usernameKey: username}}`)
	server := start(t, found, map[string]map[string]string{"login": login("first")})
	server.awaitReady(t)
	for _, user := range []string{"first", "second"} {
		if user == "second" {
			if err := project(server.root+"/etc/fluxgate/secrets/redis-credentials", "..second", login(user)); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, "the server uses the new user", func() bool {
				if out, err := server.helmTest(t); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				for line := range strings.Lines(fmt.Sprint(do("CLIENT", "LIST"))) {
					if strings.Contains(line, "user="+user+" ") && strings.Contains(line, "cmd=evalsha ") { // a decision: probes send EVAL
						return true
					}
				}
				return false
			})
			do("ACL", "DELUSER", "first") // closes its connections
		}
		if out, err := server.helmTest(t); err != nil || !strings.Contains(out, "allowed") || strings.Contains(out, "degraded") {
			t.Errorf("as %s: %v\n%s", user, err, out)
		}
	}
}

// secretOf is a Secret of the type kubernetes.io/tls, with the CA.
func secretOf(t testing.TB, c *testenv.Certificates) map[string]string {
	t.Helper()
	content := map[string]string{}
	for key, file := range map[string]string{"ca.crt": c.CAFile, "tls.crt": c.CertFile, "tls.key": c.KeyFile} {
		content[key] = readFile(t, file)
	}
	return content
}

// applyRules runs the container of the job that applies rules, with files where git-sync
// leaves those of the repository.
func (r running) applyRules(t *testing.T, content string) {
	t.Helper()
	job := one[batchv1.Job](r.found)
	template := job.Spec.Template
	container := template.Spec.Containers[0]
	fresh := machine{t.TempDir(), r.found, r.secrets}
	if err := fresh.mount(pod{spec: &template.Spec}, container); err != nil {
		t.Fatal(err)
	}
	folder := fresh.root + "/git/repository/limits"
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "api.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), testenv.Fluxgate(t), fresh.args(container)...)
	command.Env = append(os.Environ(), fresh.environ(container)...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// The job copies rules to Redis or MongoDB. A server becomes ready with them, and takes
// changed ones.
func TestRun_RulesFromGit(t *testing.T) {
	for store, settings := range map[string]string{"redis": "", "mongo": "mongo: {enabled: true, existingSecret: mongo}"} {
		t.Run(store, func(t *testing.T) {
			redis := testenv.StartStandalone(t, testenv.Config{})
			secrets := map[string]map[string]string{"redis": {"uri": redis.URI()}}
			if store == "mongo" {
				secrets["mongo"] = map[string]string{"uri": testenv.StartMongo(t).URI()}
			}
			found := mustRender(t, settings, `
redis: {existingSecret: redis}
config: {reload: {polling-interval: 1s}}
rules: {source: git, git: {repo: "https://git.example.com/rules.git", path: limits}}`)
			server := start(t, found, secrets)
			testenv.Eventually(t, "the server is alive", func() bool { return server.probe(server.container.LivenessProbe) == 200 })
			if status := server.probe(server.container.ReadinessProbe); status != 503 {
				t.Errorf("without rules it is ready: %d", status)
			}
			server.applyRules(t, limitOf5)
			server.awaitReady(t)
			if out, err := server.helmTest(t); err != nil || !strings.Contains(out, "  5  ") {
				t.Errorf("%v\n%s", err, out)
			}
			server.applyRules(t, strings.ReplaceAll(limitOf5, "capacity: 5", "capacity: 7"))
			testenv.Eventually(t, "the changed rules are in effect", func() bool {
				out, err := server.helmTest(t)
				return err == nil && strings.Contains(out, "  7  ")
			})
		})
	}
}

// A server with files of envoyproxy/ratelimit needs no default rule set, and one without
// Redis counts by itself.
func TestRun_EnvoyFilesWithoutRedis(t *testing.T) {
	found := mustRender(t, `
redis: {enabled: false}
grpc: {enabled: true}
rules:
  source: envoyFiles
  files:
    edge.yaml: |
      domain: edge
      descriptors: [{key: remote_address, rate_limit: {unit: hour, requests_per_unit: 3}}]`)
	server := start(t, found, nil)
	server.awaitReady(t)
	if out, err := server.helmTest(t, "--rule-set=edge", "--descriptor=remote_address=192.0.2.1"); err != nil || !strings.Contains(out, "  3  ") {
		t.Errorf("%v\n%s", err, out)
	}
}
