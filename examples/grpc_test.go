package examples_test

import (
	"os/exec"
	"strings"
	"testing"
)

// The client of the gRPC example shows five calls that pass and one that is refused.
func TestExamples_GRPC(t *testing.T) {
	addr := run(t, "grpc")
	for range 5 { // one comes back every second: a slow machine may need another client
		out, err := exec.CommandContext(t.Context(), "go", "run", "./grpc", "-call", addr).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		answers := string(out)
		if !strings.HasPrefix(answers, "OK hello, gopher") {
			t.Fatal(answers)
		}
		if strings.Contains(answers, "\nResourceExhausted  retry in ") {
			return
		}
	}
	t.Error("no call is refused")
}
