package forwardauth_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// snippets are the configurations that docs/proxies.md shows.
const snippets = "../../deploy/proxies/"

// addresses are those that a snippet is filled in with.
type addresses struct{ proxy, fluxgate, backend, spare string }

// proxy is one that we have a snippet for.
type proxy struct {
	name    string
	program string
	snippet string
	// closed and open are what a snippet has, and what is to stand there
	// instead for it to fail open.
	closed, open string
	// patience are the lines with timeouts. Tests replace the time in them,
	// since their machine may be slower than any fluxgate.
	patience []string
	// prepare writes what else the program needs into its folder and says how
	// to start it there.
	prepare func(t *testing.T, folder, config string, at addresses) (args []string, text string)
}

// start runs a proxy with its snippet until the test ends. A patience that is
// not 0 replaces the snippet's.
func (p *proxy) start(t *testing.T, at addresses, open bool, patience string) {
	t.Helper()
	program, err := exec.LookPath(p.program)
	if err != nil {
		// Where Debian keeps them, and only root's PATH leads.
		if program, err = exec.LookPath("/usr/sbin/" + p.program); err != nil {
			t.Fatalf("%v: on Debian, apt-get install %s", err, p.name)
		}
	}
	folder := t.TempDir()
	text := readFile(t, snippets+p.snippet)
	text = replace(t, text, "127.0.0.1:8080", at.fluxgate)
	text = replace(t, text, "127.0.0.1:3000", at.backend)
	if open {
		text = replace(t, text, p.closed, p.open)
	}
	if patience != "" {
		for _, line := range p.patience {
			words := strings.Fields(line)
			words[len(words)-1] = patience
			with := strings.Join(words, " ")
			if strings.HasSuffix(line, ";") {
				with += ";"
			}
			text = replace(t, text, line, with)
		}
	}
	config := filepath.Join(folder, p.snippet)
	args, text := p.prepare(t, folder, text, at)
	write(t, config, text)
	run(t, folder, program, args...)
	waitFor(t, "http://"+at.proxy+"/")
}

// replace fails if there is nothing to replace: the snippet would not do what
// the test means it to.
func replace(t *testing.T, text, old, with string) string {
	t.Helper()
	if !strings.Contains(text, old) {
		t.Fatalf("the snippet does not say %q", old)
	}
	return strings.ReplaceAll(text, old, with)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run starts a program and ends it with the test, or with this process. The
// kernel ties that to the thread that starts it, which therefore waits for it.
func run(t *testing.T, folder, program string, args ...string) {
	t.Helper()
	output := filepath.Join(folder, "output")
	log, err := os.Create(output)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, args...)
	command.Dir, command.Stdout, command.Stderr = folder, log, log
	command.Env = append(os.Environ(), "HOME="+folder, "XDG_DATA_HOME="+folder, "XDG_CONFIG_HOME="+folder)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
		_ = log.Close()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(program), readFile(t, output))
		}
	})
}

// waitFor waits until somebody answers.
func waitFor(t *testing.T, url string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	testenv.Eventually(t, url+" answers", func() bool {
		res, err := client.Get(url)
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil
	})
}

var nginx = proxy{
	name: "nginx", program: "nginx", snippet: "nginx.conf",
	closed: "        return 403; # fail closed: the client gets 503\n        # return 204; # fail open",
	open:   "        # return 403; # fail closed: the client gets 503\n        return 204; # fail open",
	patience: []string{
		"proxy_connect_timeout 1s;", "proxy_send_timeout    1s;", "proxy_read_timeout    2s;",
	},
	prepare: func(t *testing.T, folder, config string, at addresses) (args []string, text string) {
		// One process, in the foreground, that writes into its folder only.
		write(t, filepath.Join(folder, "main.conf"), `
			daemon off;
			master_process off;
			pid nginx.pid;
			error_log stderr notice;
			events { worker_connections 256; }
			http {
				access_log off;
				client_body_temp_path body;
				proxy_temp_path proxy;
				fastcgi_temp_path fastcgi;
				uwsgi_temp_path uwsgi;
				scgi_temp_path scgi;
				include nginx.conf;
			}
		`)
		return []string{"-p", folder, "-c", filepath.Join(folder, "main.conf"), "-e", "stderr"}, replace(t, config, "listen 80;", "listen "+at.proxy+";")
	},
}

var haproxy = proxy{
	name: "haproxy", program: "haproxy", snippet: "haproxy.cfg",
	closed: "?ruleSet=api-limits closed ", open: "?ruleSet=api-limits open ",
	patience: []string{"timeout connect 1s", "timeout server 2s"},
	prepare: func(t *testing.T, folder, config string, at addresses) (args []string, text string) {
		lua := replace(t, readFile(t, snippets+"fluxgate.lua"), "127.0.0.1:8079", at.spare)
		write(t, filepath.Join(folder, "fluxgate.lua"), lua)
		config = replace(t, config, "/etc/haproxy/fluxgate.lua", filepath.Join(folder, "fluxgate.lua"))
		config = replace(t, config, "127.0.0.1:8079", at.spare)
		return []string{"-db", "-f", filepath.Join(folder, "haproxy.cfg")}, replace(t, config, "bind :80\n", "bind "+at.proxy+"\n")
	},
}

// caddyOpen are the lines that make Caddy fail open, as the snippet has them.
const caddyOpen = `
		# to 127.0.0.1:8079
		# lb_policy first
		# lb_retries 1
		# fail_duration 1s
		# @undecided {
		# 	status 5xx
		# 	header !X-Fluxgate-Status
		# }
		# handle_response @undecided {
		# 	vars fluxgate undecided
		# }
`

var caddy = proxy{
	name: "caddy", program: "caddy", snippet: "Caddyfile",
	closed: caddyOpen, open: regexp.MustCompile(`(?m)^\t\t# `).ReplaceAllString(caddyOpen, "\t\t"),
	patience: []string{"dial_timeout 1s", "response_header_timeout 2s"},
	prepare: func(t *testing.T, folder, config string, at addresses) (args []string, text string) {
		config = replace(t, config, "127.0.0.1:8079", at.spare)
		_, port, _ := strings.Cut(at.proxy, ":")
		config = "{\n\tadmin off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n}\n" + replace(t, config, "\n:80 {", "\n:"+port+" {")
		return []string{"run", "--config", filepath.Join(folder, "Caddyfile"), "--adapter", "caddyfile"}, config
	},
}

func freeAddresses(t *testing.T) addresses {
	return addresses{testenv.FreeAddr(t), testenv.FreeAddr(t), testenv.FreeAddr(t), testenv.FreeAddr(t)}
}
