// Package frontproxy starts the proxies of docs/proxies.md with the configurations
// in deploy/proxies, for tests.
package frontproxy

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// Addresses are those that a snippet is filled in with.
type Addresses struct{ Proxy, Fluxgate, Backend, Spare string }

// FreeAddresses returns addresses without listeners.
func FreeAddresses(tb testing.TB) Addresses {
	tb.Helper()
	return Addresses{testenv.FreeAddr(tb), testenv.FreeAddr(tb), testenv.FreeAddr(tb), testenv.FreeAddr(tb)}
}

// Proxy is one that has a snippet.
type Proxy struct {
	Name    string
	program string
	snippet string
	// closed and open are what a snippet has, and what replaces it to fail open.
	closed, open string
	// patience are the lines with timeouts.
	patience []string
	// Prepare writes what else the program needs into its folder, and returns its
	// arguments and its configuration.
	Prepare func(tb testing.TB, folder, config string, at Addresses) (args []string, text string)
}

// All are the proxies that are tested.
var All = []*Proxy{&Nginx, &HAProxy, &Caddy}

// Start runs a proxy with its snippet until the test ends, and waits until it answers.
// A patience that is not empty replaces the snippet's timeouts, for machines that are
// slower than any fluxgate.
func (p *Proxy) Start(tb testing.TB, at Addresses, open bool, patience string) {
	tb.Helper()
	program, err := exec.LookPath(p.program)
	if err != nil {
		// Where Debian keeps them, and only root's PATH leads.
		if program, err = exec.LookPath("/usr/sbin/" + p.program); err != nil {
			tb.Fatalf("%v: on Debian, apt-get install %s", err, p.Name)
		}
	}
	folder := tb.TempDir()
	text := readFile(tb, filepath.Join(snippets(tb), p.snippet))
	text = Replace(tb, text, "127.0.0.1:8080", at.Fluxgate)
	text = Replace(tb, text, "127.0.0.1:3000", at.Backend)
	if open {
		text = Replace(tb, text, p.closed, p.open)
	}
	if patience != "" {
		for _, line := range p.patience {
			words := strings.Fields(line)
			words[len(words)-1] = patience
			with := strings.Join(words, " ")
			if strings.HasSuffix(line, ";") {
				with += ";"
			}
			text = Replace(tb, text, line, with)
		}
	}
	args, text := p.Prepare(tb, folder, text, at)
	write(tb, filepath.Join(folder, p.snippet), text)
	running := testenv.StartProgramIn(tb, folder, program, args...)
	waitFor(tb, "http://"+at.Proxy+"/", running)
}

func snippets(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(testenv.Root(tb), "deploy", "proxies")
}

// Replace replaces a part of a text. It fails the test if the text does not have it:
// the snippet would not do what the test expects.
func Replace(tb testing.TB, text, old, with string) string {
	tb.Helper()
	if !strings.Contains(text, old) {
		tb.Fatalf("the snippet does not have %q", old)
	}
	return strings.ReplaceAll(text, old, with)
}

func write(tb testing.TB, name, text string) {
	tb.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func readFile(tb testing.TB, name string) string {
	tb.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}

// waitFor waits until there is an answer.
func waitFor(tb testing.TB, url string, program *testenv.Program) {
	tb.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	testenv.Eventually(tb, url+" answers", func() bool {
		if !program.Running() {
			tb.Fatal("the proxy has ended")
		}
		res, err := client.Get(url)
		if err == nil {
			_ = res.Body.Close()
		}
		return err == nil
	})
}

// Nginx asks with auth_request.
var Nginx = Proxy{
	Name: "nginx", program: "nginx", snippet: "nginx.conf",
	closed: "        return 403; # fail closed: the client gets 503\n        # return 204; # fail open",
	open:   "        # return 403; # fail closed: the client gets 503\n        return 204; # fail open",
	patience: []string{
		"proxy_connect_timeout 1s;", "proxy_send_timeout    1s;", "proxy_read_timeout    2s;",
	},
	Prepare: func(tb testing.TB, folder, config string, at Addresses) (args []string, text string) {
		// One process, in the foreground, that writes into its folder only.
		write(tb, filepath.Join(folder, "main.conf"), `
			daemon off;
			master_process off;
			pid nginx.pid;
			error_log stderr notice;
			events { worker_connections 1024; }
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
		return []string{"-p", folder, "-c", filepath.Join(folder, "main.conf"), "-e", "stderr"}, Replace(tb, config, "listen 80;", "listen "+at.Proxy+";")
	},
}

// HAProxy asks with a Lua script.
var HAProxy = Proxy{
	Name: "haproxy", program: "haproxy", snippet: "haproxy.cfg",
	closed: "?ruleSet=api-limits closed ", open: "?ruleSet=api-limits open ",
	patience: []string{"timeout connect 1s", "timeout server 2s"},
	Prepare: func(tb testing.TB, folder, config string, at Addresses) (args []string, text string) {
		lua := Replace(tb, readFile(tb, filepath.Join(snippets(tb), "fluxgate.lua")), "127.0.0.1:8079", at.Spare)
		write(tb, filepath.Join(folder, "fluxgate.lua"), lua)
		config = Replace(tb, config, "/etc/haproxy/fluxgate.lua", filepath.Join(folder, "fluxgate.lua"))
		config = Replace(tb, config, "127.0.0.1:8079", at.Spare)
		return []string{"-db", "-f", filepath.Join(folder, "haproxy.cfg")}, Replace(tb, config, "bind :80\n", "bind "+at.Proxy+"\n")
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

// Caddy asks with a reverse_proxy.
var Caddy = Proxy{
	Name: "caddy", program: "caddy", snippet: "Caddyfile",
	closed: caddyOpen, open: regexp.MustCompile(`(?m)^\t\t# `).ReplaceAllString(caddyOpen, "\t\t"),
	patience: []string{"dial_timeout 1s", "response_header_timeout 2s"},
	Prepare: func(tb testing.TB, folder, config string, at Addresses) (args []string, text string) {
		config = Replace(tb, config, "127.0.0.1:8079", at.Spare)
		_, port, _ := strings.Cut(at.Proxy, ":")
		config = "{\n\tadmin off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n}\n" + Replace(tb, config, "\n:80 {", "\n:"+port+" {")
		return []string{"run", "--config", filepath.Join(folder, "Caddyfile"), "--adapter", "caddyfile"}, config
	},
}
