package limittest_test

import (
	"testing"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/httplimit/limittest"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An engine gives the golden responses.
func TestRun_Engine(t *testing.T) {
	limittest.Run(t, func(_ *testing.T, engine *fluxgate.Engine) fluxgate.Limiter { return engine })
}
