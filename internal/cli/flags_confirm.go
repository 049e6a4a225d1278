package cli

import (
	"bufio"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// confirmFlag is --yes, which answers the question before a change.
type confirmFlag struct{ yes bool }

func (c *confirmFlag) flag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
}

// ask returns nil if the change is confirmed. Without a terminal it is not.
func (c *confirmFlag) ask(cmd *cobra.Command, question string) error {
	if c.yes {
		return nil
	}
	in, out := cmd.InOrStdin(), cmd.ErrOrStderr()
	if !isTerminal(in) {
		printf(out, "nothing was changed: there is no terminal to ask on, and --yes was not given\n")
		return exitCode(exitDrift)
	}
	printf(out, "%s [y/N] ", question)
	answer, err := bufio.NewReader(io.LimitReader(in, 100)).ReadString('\n')
	if err != nil { // the end of the input counts as no
		printf(out, "\n")
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	printf(out, "nothing was changed\n")
	return exitCode(exitDrift)
}
