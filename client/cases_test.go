package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/client"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/internal/wire"
	"github.com/fluxgate/fluxgate/rules"
)

// conformanceFile is clients/conformance/cases.json: see the README there.
type conformanceFile struct {
	Tokens map[string]string
	Groups []struct{ Name, Covers string }
	Cases  []conformanceCase
}

type conformanceCase struct {
	Group, Name, Server string
	Client              struct {
		TimeoutMs time.Duration
		OnFailure string
	}
	Middleware *middlewareOptions
	Steps      []conformanceStep
}

// conformanceStep has one of Check, Settle, Extend, Raw, Send, Seen and Together.
type conformanceStep struct {
	Check    *wire.Request
	Settle   *wire.Settle
	Extend   *wire.Extend
	Together []conformanceStep
	Raw      *struct {
		Path, Text string
		Body       json.RawMessage
	}
	Send map[string]any
	Seen any

	Token, Save                     string
	AfterMs, LeaveAfterMs, WithinMs time.Duration

	Answer any
	Error  *struct {
		Status int
		Detail string
	}
}

// The client passes the cases that clients of every language run, against a server of
// this tree with a real Redis.
func TestConformance_Cases(t *testing.T) {
	var file conformanceFile
	if err := json.Unmarshal([]byte(readFile(t, folder+"cases.json")), &file); err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^(?:fluxgate|harness) .*?(?:\s+#.*)?$`).FindAllString(readFile(t, folder+"README.md"), -1)
	if len(commands) != 3 {
		t.Fatalf("the README has %d commands that start servers, want 3", len(commands))
	}
	servers := map[string]string{
		"":              startConformance(t, testenv.Fluxgate(t), commands[0], testenv.StartStandalone(t, testenv.Config{}).URI()),
		"without-redis": startConformance(t, testenv.Fluxgate(t), commands[1], "redis://"+testenv.FreeAddr(t)),
		"harness":       startConformance(t, buildHarness(t), commands[2], ""),
	}
	for i := range file.Cases {
		c := &file.Cases[i]
		t.Run(c.Group+"/"+c.Name, func(t *testing.T) {
			t.Parallel() // most of the time they wait
			run := &caseRun{TB: t, of: c, server: servers[c.Server], harness: servers["harness"], tokens: file.Tokens, clients: map[string]*client.Client{}, receipts: map[string]*fluxgate.Receipt{}}
			if c.Server == "harness" {
				run.server = fmt.Sprintf("%s/cases/%d", run.harness, i)
			}
			for _, token := range file.Tokens {
				run.clients[token] = run.newClient(token)
			}
			if c.Middleware != nil {
				run.startApp()
			}
			for i := range c.Steps {
				run.step(fmt.Sprintf("step %d", i+1), &c.Steps[i])
			}
		})
	}
	if len(file.Cases) < 50 {
		t.Errorf("there are only %d cases", len(file.Cases))
	}
}

const folder = "../clients/conformance/"

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// startConformance runs a command of the README with other addresses, and waits until
// the server listens.
func startConformance(t *testing.T, program, command, redis string) (url string) {
	t.Helper()
	command, _, _ = strings.Cut(command, " #")
	here, err := filepath.Abs(folder)
	if err != nil {
		t.Fatal(err)
	}
	addr := testenv.FreeAddr(t)
	command = regexp.MustCompile(`redis.uri=\S+`).ReplaceAllLiteralString(command, "redis.uri="+redis)
	command = regexp.MustCompile(`127.0.0.1:808\d`).ReplaceAllLiteralString(command, addr)
	command = strings.NewReplacer("fluxgate.yaml", here+"/fluxgate.yaml", "rules.yaml", here+"/rules.yaml", "cases.json", here+"/cases.json").Replace(command)
	testenv.StartProgram(t, program, strings.Fields(command)[1:]...)
	testenv.Eventually(t, "the server listens", func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return "http://" + addr // requests wait for the start
}

// caseRun is one run of a case.
type caseRun struct {
	testing.TB
	of       *conformanceCase
	server   string // the URL of clients
	harness  string
	app      string // the URL of the app with the middleware
	tokens   map[string]string
	clients  map[string]*client.Client    // by token
	receipts map[string]*fluxgate.Receipt // by the names that steps save them under
}

// newClient returns a client that reports failures, or decides as the case says.
func (run *caseRun) newClient(token string) *client.Client {
	config := client.Config{Token: client.Secret(token), MaxWait: 5 * time.Second, OnFailure: rules.FailClosed, Failed: func(context.Context, error) {}}
	switch run.of.Client.OnFailure {
	case "allow":
		config.OnFailure = rules.FailOpen
	case "":
		config.Failed = func(ctx context.Context, err error) {
			if failed, ok := ctx.Value(failedKey{}).(*error); ok {
				*failed = err
			}
		}
	}
	if run.of.Client.TimeoutMs > 0 {
		config.Timeout, config.MaxWait = run.of.Client.TimeoutMs*time.Millisecond, 0
	}
	if run.of.Middleware != nil {
		config.Headers = run.of.Middleware.Headers
	}
	return newClient(run, run.server, config)
}

// failedKey is the key of why the server has not decided a step.
type failedKey struct{}

func (run *caseRun) step(place string, step *conformanceStep) {
	run.Helper()
	if step.Together != nil {
		var all sync.WaitGroup
		for i := range step.Together {
			all.Go(func() { run.step(fmt.Sprintf("%s.%d", place, i+1), &step.Together[i]) })
		}
		all.Wait()
		return
	}
	time.Sleep(step.AfterMs * time.Millisecond)
	if step.Seen != nil {
		run.waitFor(place, step.Seen)
		return
	}
	begin := time.Now()
	answer, err := run.perform(step)
	if took := time.Since(begin); step.WithinMs > 0 && took > step.WithinMs*time.Millisecond {
		run.Errorf("%s took %v, want at most %d ms", place, took, step.WithinMs)
	}
	if (step.Error == nil) == (step.Answer == nil) {
		run.Errorf("%s: must have an answer or an error", place)
	}
	if step.Error != nil {
		status, detail := statusOf(err), ""
		if refused := (*client.StatusError)(nil); errors.As(err, &refused) {
			detail = refused.Detail
		}
		if status != step.Error.Status || detail != "" && step.Error.Detail != "" && detail != step.Error.Detail {
			run.Errorf("%s: status %d, %v; want %+v", place, status, err, *step.Error)
		}
		return
	}
	if err != nil {
		run.Errorf("%s: %v", place, err)
		return
	}
	var got any
	if err := json.Unmarshal(answer, &got); err != nil {
		run.Errorf("%s: %v: %s", place, err, answer)
		return
	}
	if problem := mismatch(got, step.Answer); problem != "" {
		run.Errorf("%s: %s\n%s", place, problem, answer)
	}
}

// perform does what a step says and returns the answer as JSON.
func (run *caseRun) perform(step *conformanceStep) ([]byte, error) {
	var failed error
	ctx := context.WithValue(run.Context(), failedKey{}, &failed)
	if step.LeaveAfterMs > 0 {
		var leave context.CancelFunc
		ctx, leave = context.WithTimeout(ctx, step.LeaveAfterMs*time.Millisecond)
		defer leave()
	}
	token := run.tokens["gateway"]
	if step.Token != "" {
		token = run.tokens[step.Token]
	}
	c := run.clients[token]
	switch {
	case step.Check != nil:
		var req fluxgate.Request
		_ = step.Check.To(&req) // what is wrong is to be found by the client or the server
		d, err := c.Check(ctx, &req)
		if err := errors.Join(err, failed); err != nil {
			return nil, err
		}
		receipt := ""
		if r := d.Receipt(); r != nil {
			receipt = r.Token
			if step.Save != "" {
				run.receipts[step.Save] = r
			}
		}
		return wire.Append(nil, &d, receipt), nil
	case step.Settle != nil && step.Settle.Usage != nil:
		var usage fluxgate.Usage
		_ = step.Settle.Usage.To(&usage) // what is wrong is to be found by the client or the server
		settled, err := c.SettleUsage(ctx, run.receipt(step.Settle.Receipt), &usage)
		answer := wire.Settlements{Measures: map[string]wire.Settlement{}}
		for measure, s := range settled {
			answer.Measures[measure] = wire.Settlement{Returned: s.Returned, Charged: s.Charged}
		}
		return encode(answer, err)
	case step.Settle != nil:
		settled, err := c.Settle(ctx, run.receipt(step.Settle.Receipt), *step.Settle.Actual)
		return encode(wire.Settlement{Returned: settled.Returned, Charged: settled.Charged}, err)
	case step.Extend != nil:
		receipt := run.receipt(step.Extend.Receipt)
		err := c.Extend(ctx, receipt)
		return encode(wire.Extend{Receipt: receipt.Token}, err)
	case step.Raw != nil:
		return run.send(step, token)
	case step.Send != nil:
		return run.sendToApp(step.Send)
	}
	return nil, errors.New("the step does nothing")
}

func encode(answer any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

// receipt returns a receipt that was saved, or one with the token itself.
func (run *caseRun) receipt(name string) *fluxgate.Receipt {
	if saved := run.receipts[strings.TrimPrefix(name, "$")]; saved != nil {
		return saved
	}
	return &fluxgate.Receipt{Token: name}
}

// send sends a request that the client cannot express.
func (run *caseRun) send(step *conformanceStep, token string) ([]byte, error) {
	body := string(step.Raw.Body)
	if body == "" {
		body = step.Raw.Text
	}
	for name, receipt := range run.receipts {
		body = strings.ReplaceAll(body, `"$`+name+`"`, `"`+receipt.Token+`"`)
	}
	return run.exchange(http.MethodPost, run.server+step.Raw.Path, token, body)
}

// exchange sends a request by plain HTTP.
func (run *caseRun) exchange(method, url, token, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(run.Context(), method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(response.Body); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		problem := struct{ Detail string }{answer.String()} // of the harness
		_ = json.Unmarshal(answer.Bytes(), &problem)
		return nil, &client.StatusError{Status: response.StatusCode, Detail: problem.Detail}
	}
	return answer.Bytes(), nil
}

// statusOf returns the status of the answer, or the one that the server would have
// answered if the client has refused the call by itself.
func statusOf(err error) int {
	var refused *client.StatusError
	switch {
	case errors.As(err, &refused):
		return refused.Status
	case errors.Is(err, fluxgate.ErrSettled), errors.Is(err, fluxgate.ErrNotHeld):
		return http.StatusConflict
	case errors.Is(err, fluxgate.ErrCost):
		return http.StatusBadRequest
	}
	return 0
}

// mismatch returns why an answer is not as wanted, or nothing. Fields that are not
// mentioned may have any value.
func mismatch(got, want any) string {
	switch want := want.(type) {
	case map[string]any:
		if from, ok := want["$from"].(float64); ok {
			number, isNumber := got.(float64)
			if to, bounded := want["$to"].(float64); !isNumber || number < from || bounded && number > to {
				return fmt.Sprintf("%v is not from %v to %v", got, want["$from"], want["$to"])
			}
			return ""
		}
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%v is not an object", got)
		}
		for name, value := range want {
			actual, there := object[name]
			if value == "$present" || value == "$absent" {
				if there != (value == "$present") {
					return fmt.Sprintf("%s must be %s", name, value.(string)[1:])
				}
				continue
			}
			if problem := mismatch(actual, value); problem != "" {
				return name + ": " + problem
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Sprintf("%v must have %d entries", got, len(want))
		}
		for i := range want {
			if problem := mismatch(list[i], want[i]); problem != "" {
				return fmt.Sprintf("[%d]: %s", i, problem)
			}
		}
	default:
		if got != want {
			return fmt.Sprintf("%v, want %v", got, want)
		}
	}
	return ""
}
