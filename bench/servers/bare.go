package servers

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
)

// Bare runs a server that answers every request with the same bytes, and decides nothing.
func Bare(tb testing.TB, httpAnswer, grpcAnswer []byte) *Server {
	tb.Helper()
	s := &Server{HTTP: testenv.FreeAddr(tb), GRPC: testenv.FreeAddr(tb)}
	args := []string{"-http", s.HTTP, "-grpc", s.GRPC}
	for name, answer := range map[string][]byte{"-http-answer": httpAnswer, "-grpc-answer": grpcAnswer} {
		file := filepath.Join(tb.TempDir(), "answer")
		if err := os.WriteFile(file, answer, 0o600); err != nil {
			tb.Fatal(err)
		}
		args = append(args, name, file)
	}
	s.Program = testenv.StartProgram(tb, build(tb, "./bare"), args...)
	awaitReady(tb, s.Program, "http://"+s.HTTP)
	return s
}

// Profiled returns the path of fluxgate with a profile of its processor time, which is in the
// file when the server has ended.
func Profiled(tb testing.TB) (program, profile string) {
	tb.Helper()
	profile = filepath.Join(tb.TempDir(), "profile")
	tb.Setenv("PROFILE", profile)
	return build(tb, "./profiled"), profile
}

// build builds a program of this module.
func build(tb testing.TB, source string) (program string) {
	tb.Helper()
	program = filepath.Join(tb.TempDir(), filepath.Base(source))
	command := exec.CommandContext(tb.Context(), "go", "build", "-o", program, source) //nolint:gosec // a package of this module
	command.Dir = filepath.Join(testenv.Root(tb), "bench")
	if out, err := command.CombinedOutput(); err != nil {
		tb.Fatalf("%v: %v: %s", command.Args, err, out)
	}
	return program
}
