package cli

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// The pages of docs/start are typed from the first line to the last, into one shell. Only
// addresses differ, and how long servers wait for Redis.
func TestDocs_Paths(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(testenv.Root(t), "docs", "start", "*.md"))
	if err != nil || len(pages) < 3 {
		t.Fatal(pages, err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "go.md" {
			t.Run(name, func(t *testing.T) { typePage(t, "docs/start/"+name) })
		}
	}
}

// So is the page that compiles the tree.
func TestDocs_Paths_Compile(t *testing.T) { typePage(t, "docs/start/go.md", publish(t)...) }

// typePage types a page in an empty folder beside a clone of the repository.
func typePage(t *testing.T, page string, environ ...string) {
	testenv.SkipShort(t)
	t.Parallel()
	text := readFile(t, page)
	if words := len(strings.Fields(text)); words < 700 || words > 1100 {
		t.Errorf("%s has %d words, not 700 to 1,100", page, words)
	}
	parent, address := t.TempDir(), freeAddresses(t)
	folder, clone := filepath.Join(parent, "limits"), filepath.Join(parent, "fluxgate")
	for _, name := range []string{"deploy/proxies/nginx.conf", "deploy/prometheus/alerts.yaml"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(clone, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, clone, name, address(readFile(t, name)))
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	environ = append(environ, "PATH="+programFolder(t)+":"+os.Getenv("PATH")+":/usr/sbin", "COLUMNS=",
		"FLUXGATE_SERVER="+address("http://127.0.0.1:8080"), "FLUXGATE_ADMIN="+address("http://127.0.0.1:9090"),
		"FLUXGATE_REDIS_TIMEOUT=1s") // for slow machines
	sh := startShell(t, folder, append(os.Environ(), environ...))
	slept := false
	steps, others := stepsOf(text)
	if len(others) > 0 {
		t.Errorf("%s has blocks that are neither commands nor files:\n%s", page, strings.Join(others, "\n"))
	}
	for _, s := range steps {
		if s.file != "" {
			// Redis may take longer than 100 ms on a slow machine.
			write(t, folder, s.file, strings.ReplaceAll(address(s.output), "redisstore.Config{}", "redisstore.Config{Timeout: 1e10}"))
			continue
		}
		sh.expect(address(s.command), address(s.output), slept)
		slept = strings.HasPrefix(s.command, "sleep ")
	}
	sh.expect("jobs -r", "", false) // the page ends what it starts
}

// freeAddresses returns a function that replaces each port of this machine in a text by a free
// one, always by the same.
func freeAddresses(t *testing.T) func(text string) string {
	t.Helper()
	free, place := map[string]string{}, regexp.MustCompile(`(127\.0\.0\.1:|--port )(\d+)\b`)
	return func(text string) string {
		return place.ReplaceAllStringFunc(text, func(found string) string {
			m := place.FindStringSubmatch(found)
			if free[m[2]] == "" {
				_, free[m[2]], _ = strings.Cut(testenv.FreeAddr(t), ":")
			}
			return m[1] + free[m[2]]
		})
	}
}

// shell is a bash that keeps its variables and jobs from one command to the next.
type shell struct {
	t      *testing.T
	in     io.Writer
	out    *bufio.Reader
	group  int
	folder string
}

func startShell(t *testing.T, folder string, environ []string) *shell {
	t.Helper()
	cmd := exec.Command("bash", "--norc")
	cmd.Dir, cmd.Env, cmd.SysProcAttr = folder, environ, &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &shell{t: t, in: in, out: bufio.NewReader(out), group: cmd.Process.Pid, folder: folder}
	t.Cleanup(func() {
		s.kill()
		_ = cmd.Wait()
	})
	return s
}

// kill ends the shell and its jobs.
func (s *shell) kill() { _ = syscall.Kill(-s.group, syscall.SIGKILL) }

// expect runs a command that has to print this. If the command before was a sleep, or curl finds no
// server, a slow machine gets more time.
func (s *shell) expect(command, output string, slept bool) {
	s.t.Helper()
	const noServer = 7
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		printed, code := s.run(command)
		wrong := wrongCode(output, code)
		if strings.Contains(command, " | ") {
			wrong = wrongCode("", code) // the code is that of the last command
		}
		if tidyResponse(printed) == tidyResponse(output) && wrong == "" {
			return
		}
		if !slept && code != noServer || time.Now().After(deadline) {
			s.t.Fatalf("$ %s\nprints\n%s\nand not\n%s\n%s\n%s", command, printed, output, wrong, s.logs())
		}
	}
}

// run returns what a command prints, and its exit code.
func (s *shell) run(command string) (printed string, code int) {
	s.t.Helper()
	errors := "2>&1"
	if strings.HasPrefix(command, "go ") {
		errors = "2> go.log" // progress
	}
	const end = "the command has ended with "
	if _, err := fmt.Fprintf(s.in, "{ %s\n} < /dev/null %s\nprintf '\\n"+end+"%%d\\n' $?\n", command, errors); err != nil {
		s.t.Fatal(err)
	}
	watchdog := time.AfterFunc(10*time.Minute, s.kill)
	defer watchdog.Stop()
	for {
		line, err := s.out.ReadString('\n')
		if _, err := fmt.Sscanf(line, end+"%d", &code); err == nil {
			return strings.TrimSuffix(printed, "\n"), code
		}
		if printed += line; err != nil {
			s.t.Fatalf("$ %s\nprints\n%s\nand does not end: %v\n%s", command, printed, err, s.logs())
		}
	}
}

// logs are what the programs of the page have logged.
func (s *shell) logs() string {
	var all strings.Builder
	names, _ := filepath.Glob(filepath.Join(s.folder, "*.log"))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		fmt.Fprintf(&all, "%s:\n%s\n", filepath.Base(name), text)
	}
	return all.String()
}
