package cli

import "github.com/spf13/cobra"

// Commands returns the root of the commands, for man pages and completion scripts.
func Commands(version string) *cobra.Command { return newRoot(version) }
