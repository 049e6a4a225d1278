package cli

import (
	"log/slog"
	"os"

	"github.com/fluxgate/fluxgate/internal/ratelimitenv"
	"github.com/spf13/cobra"
)

// ratelimitCommand is also the name under which the program runs as that command.
const ratelimitCommand = "ratelimit"

func newRatelimit() *cobra.Command {
	return &cobra.Command{
		Use: ratelimitCommand, Short: "Run the server in place of envoyproxy/ratelimit", Args: noArgs,
		Long: `Run the server with the environment variables of envoyproxy/ratelimit, the rate limit service
of Envoy and Envoy Gateway. The program does the same if its name is ratelimit.
Variables of fluxgate, such as FLUXGATE_REDIS_TIMEOUT, override them. The list is at
https://fluxgate.github.io/fluxgate/envoy#in-place-of-the-rate-limit-service-of-envoy-gateway.`,
		Example: `  CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001 CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit \
    REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379 fluxgate ratelimit`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			meant := ratelimitenv.Translate(os.Environ())
			if err := meant.Err(); err != nil {
				return err
			}
			source := configFlags{values: meant.Values}
			c, err := source.load()
			if err != nil {
				return err
			}
			return runServer(cmd, c, func(log *slog.Logger) {
				for _, n := range meant.Notes {
					log.Warn("environment variable: "+n.Message, "variable", n.Variable)
				}
			})
		},
	}
}
