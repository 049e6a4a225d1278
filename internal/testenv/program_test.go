package testenv

import (
	"os"
	"strings"
	"testing"
)

// A program can be frozen, killed and started again, and its output is kept.
func TestProgram_Lifecycle(t *testing.T) {
	p := StartProgram(t, "/bin/sh", "-c", "echo begun; exec sleep 1000")
	must(t, p.Freeze())
	must(t, p.Thaw())
	if err := p.Restart(); err == nil {
		t.Error("a running program was started again")
	}
	Eventually(t, "it has written", func() bool { return p.Log() == "begun\n" })
	must(t, p.Kill())
	if p.Running() || p.Kill() == nil {
		t.Error("it was killed and still runs")
	}
	must(t, p.Restart())
	Eventually(t, "it has written again", func() bool { return strings.Count(p.Log(), "begun\n") == 2 })
	must(t, p.Stop(testContext(t)))
	if p.Running() {
		t.Error("it was stopped and still runs")
	}
}

// The servers of the tests are built once. make test runs this first, so that no test process
// compiles or links them beside tests that measure time.
func TestPrograms_Build(t *testing.T) {
	Fluxgate(t)
	if os.Getenv(mongoVariable) != "" {
		return
	}
	program, err := ferretProgram()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); err != nil {
		t.Error(err)
	}
}
