package cli

import (
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"
	"unsafe"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"golang.org/x/term"
)

// pty is the program in a terminal.
type pty struct {
	keyboard *os.File // the side of the person
	tty      *os.File // the side of the program
	before   *term.State
	cmd      *exec.Cmd
	ended    chan error

	mu     sync.Mutex
	output strings.Builder
}

// startInTerminal runs the program in a terminal of this size.
func startInTerminal(t *testing.T, width, height int, args ...string) *pty {
	t.Helper()
	p := &pty{ended: make(chan error, 1)}
	var err error
	if p.keyboard, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	var number, unlocked int32
	p.ioctl(t, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked))
	p.ioctl(t, syscall.TIOCGPTN, unsafe.Pointer(&number))
	if p.tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	p.resize(t, width, height)
	p.before = p.state(t)
	p.cmd = exec.Command(testenv.Fluxgate(t), args...)
	p.cmd.Env = append(os.Environ(), "TERM=xterm", "NO_COLOR=")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = p.tty, p.tty, p.tty
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	read := make(chan struct{})
	go func() { p.read(); close(read) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.tty.Close()
		_ = p.keyboard.Close()
		<-read
	})
	return p
}

func (p *pty) ioctl(t *testing.T, request uintptr, argument unsafe.Pointer) {
	t.Helper()
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, p.keyboard.Fd(), request, uintptr(argument)); errno != 0 {
		t.Fatal(errno)
	}
}

func (p *pty) resize(t *testing.T, width, height int) {
	t.Helper()
	size := [4]uint16{uint16(height), uint16(width)}
	p.ioctl(t, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
}

func (p *pty) state(t *testing.T) *term.State {
	t.Helper()
	state, err := term.GetState(int(p.tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func (p *pty) read() {
	var b [4096]byte
	for {
		n, err := p.keyboard.Read(b[:])
		p.mu.Lock()
		p.output.Write(b[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// text is all that the program has written.
func (p *pty) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// shows waits until the last frame on the screen has a text.
func (p *pty) shows(t *testing.T, text string) {
	t.Helper()
	testenv.Eventually(t, "the screen shows "+text, func() bool {
		all := p.text()
		return strings.Contains(all[max(0, strings.LastIndex(all, "\x1b[H")):], text)
	})
}

// interrupt presses ctrl-C.
func (p *pty) interrupt(t *testing.T) {
	t.Helper()
	if _, err := p.keyboard.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
}

// wait waits for the end of the program.
func (p *pty) wait(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, "the program ends", func() bool { return len(p.ended) > 0 })
	if err := <-p.ended; err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// restored waits for the end of the program, which must leave the terminal as it was.
func (p *pty) restored(t *testing.T) {
	t.Helper()
	p.wait(t)
	testenv.Eventually(t, "the screen is restored", func() bool { return strings.HasSuffix(p.text(), leaveScreen) })
	if after := p.state(t); !reflect.DeepEqual(p.before, after) {
		t.Errorf("the terminal is in another state: %v, was %v", after, p.before)
	}
}

// screenOf is what a terminal without wrapping shows after this output.
func screenOf(output string, width, height int) string {
	cells := make([][]rune, height) // from the first clearing on
	row, column := 0, 0
	for output != "" {
		r, size := utf8.DecodeRuneInString(output)
		if sequence := regexp.MustCompile(`^\x1b\[[?0-9]*[A-Za-z]`).FindString(output); sequence != "" {
			r, size = rune(sequence[len(sequence)-1])|0x1b<<8, len(sequence)
		}
		output = output[size:]
		switch r {
		case '\r':
			column = 0
		case '\n':
			row++
		case 'H' | 0x1b<<8:
			row, column = 0, 0
		case 'J' | 0x1b<<8:
			for i := range cells {
				cells[i] = slices.Repeat([]rune{' '}, width)
			}
		case 'm' | 0x1b<<8, 'h' | 0x1b<<8, 'l' | 0x1b<<8:
		default:
			cells[row][column] = r
			column = min(column+1, width-1)
		}
	}
	var lines []string
	for _, line := range cells {
		lines = append(lines, strings.TrimRight(string(line), " "))
	}
	return strings.Join(lines, "\n")
}
