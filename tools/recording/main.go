// Recording writes docs/images/recording.svg: an animation of a first decision and of fluxgate
// simulate. Every line is what the program prints in a terminal, on a server that runs while it is
// recorded.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The size of the terminal.
const columns, rows = 122, 21

const ruleFile = `id: api-limits
rules:
  - id: per-user
    path: /api/**
    limitScope: USER_ID
    bands: [{ label: hourly, capacity: 2, refill: 1h }]
`

func main() {
	if len(os.Args) != 2 {
		fatal(fmt.Errorf("usage: recording FILE"))
	}
	text, err := record()
	if err == nil {
		err = os.WriteFile(os.Args[1], text, 0o644) //nolint:gosec // a picture
	}
	if err != nil {
		fatal(err)
	}
	fmt.Printf("%s: %d KB\n", os.Args[1], len(text)/1000)
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "recording:", err)
	os.Exit(1)
}

// record builds the program, starts a server, and runs the commands.
func record() ([]byte, error) {
	folder, err := os.MkdirTemp("", "recording")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	s := &session{folder: folder}
	if s.root, err = filepath.Abs(".."); err != nil {
		return nil, err
	}
	build := exec.Command("go", "build", "-o", filepath.Join(folder, "fluxgate"), "./cmd/fluxgate") //nolint:gosec // in a folder of our own
	build.Dir, build.Stderr = s.root, os.Stderr
	if err := build.Run(); err != nil {
		return nil, err
	}
	for _, name := range []string{"access.log", "current.yaml", "proposed.yaml"} {
		if err := os.Symlink(filepath.Join(s.root, "examples", "simulate", name), filepath.Join(folder, name)); err != nil {
			return nil, err
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "rules.yaml"), []byte(ruleFile), 0o600); err != nil {
		return nil, err
	}
	stop, err := s.serve()
	if err != nil {
		return nil, err
	}
	defer stop()
	return s.scenes()
}

// session is where commands run.
type session struct {
	folder, root string
	http, admin  string // the addresses of the server
}

const serve = "fluxgate serve --set rules.file=rules.yaml --set redis.enabled=false"

// serve starts the server on free ports.
func (s *session) serve() (stop func(), err error) {
	for _, address := range []*string{&s.http, &s.admin} {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		*address = free.Addr().String()
		_ = free.Close()
	}
	server := s.command("exec " + serve)
	if err := server.Start(); err != nil {
		return nil, err
	}
	for range 200 {
		if answer, err := http.Get("http://" + s.admin + "/readyz"); err == nil {
			_ = answer.Body.Close()
			return func() { _ = server.Process.Kill(); _ = server.Wait() }, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil, fmt.Errorf("the server does not answer")
}

func (s *session) command(line string) *exec.Cmd {
	c := exec.Command("sh", "-c", line) //nolint:gosec // the commands above
	c.Dir = s.folder
	c.Env = append(os.Environ(), "PATH="+s.folder+":"+os.Getenv("PATH"), "TERM=xterm", "SHELL=/bin/sh",
		"FLUXGATE_SERVER_HTTP="+s.http, "FLUXGATE_SERVER_GRPC=", "FLUXGATE_SERVER_ADMIN="+s.admin,
		"FLUXGATE_SERVER=http://"+s.http, "FLUXGATE_ADMIN=http://"+s.admin)
	return c
}

// run returns what a command prints in a terminal. The exit status is that of the decision.
func (s *session) run(line string) (string, error) {
	script := fmt.Sprintf("script -qec 'stty cols %d rows %d -opost; %s' /dev/null", columns, rows, line)
	c := s.command(script)
	var errors strings.Builder
	c.Stderr = &errors
	out, err := c.Output()
	if len(out) == 0 {
		return "", fmt.Errorf("%s: %w %s", line, err, errors.String())
	}
	return strings.TrimRight(string(out), "\r\n"), nil
}

// scenes runs the commands and draws them.
func (s *session) scenes() ([]byte, error) {
	first := scene{{typed: "cat rules.yaml", printed: strings.TrimRight(ruleFile, "\n")}, {typed: serve + " &"}}
	for _, line := range []string{"fluxgate check --user ada --path /api/orders --cost 2", "fluxgate check --user ada --path /api/orders"} {
		out, err := s.run(line)
		if err != nil {
			return nil, err
		}
		first = append(first, step{typed: line, printed: out})
	}
	line := "fluxgate simulate --rules proposed.yaml --against current.yaml --log access.log | head -n 14"
	out, err := s.run(line)
	if err != nil {
		return nil, err
	}
	return draw(first, scene{{typed: line, printed: out}}), nil
}
