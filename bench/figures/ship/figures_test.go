package ship

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/bench/clone"
	"github.com/fluxgate/fluxgate/bench/figure"
)

const root = "../../.."

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	atMost := func(name string, bar float64) func(float64, error) {
		return func(value float64, err error) {
			if err != nil {
				report.Failed(name, err)
				return
			}
			report.AtMost(name, value, bar, "")
		}
	}
	others, err := libraryDependencies(t.Context(), root)
	atMost("ship-library-dependencies", 0)(float64(len(others)), err)
	if figure.Smoke() {
		return // the rest builds everything anew
	}
	atMost("ship-binary-mb", 60)(binaryMB(t.Context(), root, t.TempDir()))
	atMost("ship-ts-client-kb", 10)(clientKB(root + "/clients/typescript/dist"))
	atMost("ship-minutes-to-first-decision", 3)(minutesOf(t, firstDecision(t), "refused (limited)"))
}

// minutesOf types commands, which must print a text.
func minutesOf(t *testing.T, commands, expected string) (minutes float64, err error) {
	c, err := clone.New(t.Context(), root)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	minutes, output, err := c.Minutes(t.Context(), commands)
	if err == nil && !strings.Contains(output, expected) {
		err = errors.New("unexpected output: " + output)
	}
	return minutes, err
}

func firstDecision(t *testing.T) string {
	t.Helper()
	readme, err := os.ReadFile(root + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands, err := firstDecisionOf(string(readme))
	if err != nil {
		t.Fatal(err)
	}
	return commands
}

// The commands of the README are found, without what they print.
func TestFirstDecision(t *testing.T) {
	commands := firstDecision(t)
	for _, want := range []string{"go install ./cmd/fluxgate\n", "\nfluxgate check ", "kill %1"} {
		if !strings.Contains(commands, want) {
			t.Errorf("%q is missing in\n%s", want, commands)
		}
	}
	if strings.Contains(commands, "refused") {
		t.Errorf("output is typed:\n%s", commands)
	}
}

// Nothing is linked into a program with httplimit and memstore but this project.
func TestLibraryDependencies(t *testing.T) {
	others, err := libraryDependencies(t.Context(), root)
	if err != nil || len(others) > 0 {
		t.Errorf("%v, %v", others, err)
	}
}
