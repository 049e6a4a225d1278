package cli

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// confirmation is how a change is agreed to.
type confirmation struct{ yes bool }

func (c *confirmation) flag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
}

// ask is nil if the change is agreed to. Where nobody is there to ask it is
// not.
func (c *confirmation) ask(cmd *cobra.Command, question string) error {
	if c.yes {
		return nil
	}
	in, out := cmd.InOrStdin(), cmd.ErrOrStderr()
	if !isTerminal(in) {
		_, _ = fmt.Fprintln(out, "nothing was changed: there is no terminal to ask on, and --yes was not given")
		return exitCode(exitDrift)
	}
	_, _ = fmt.Fprintf(out, "%s [y/N] ", question)
	answer, err := bufio.NewReader(io.LimitReader(in, 100)).ReadString('\n')
	if err != nil { // none is no
		_, _ = fmt.Fprintln(out)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	_, _ = fmt.Fprintln(out, "nothing was changed")
	return exitCode(exitDrift)
}
