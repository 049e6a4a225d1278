package cli

import (
	"bufio"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// confirmFlag is --yes, which confirms a change without a prompt.
type confirmFlag struct{ yes bool }

func (c *confirmFlag) flag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "do not ask")
}

// confirm returns nil if the change is confirmed. Without a terminal it is not.
func (c *confirmFlag) confirm(cmd *cobra.Command, prompt string) error {
	if c.yes {
		return nil
	}
	in, out := cmd.InOrStdin(), cmd.ErrOrStderr()
	if !isTerminal(in) {
		printf(out, "nothing was changed: there is no terminal to ask for confirmation; use --yes\n")
		return exitCode(exitDrift)
	}
	printf(out, "%s [y/N] ", prompt)
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
