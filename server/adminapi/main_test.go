package adminapi_test

import (
	"testing"

	"github.com/fluxgate/fluxgate/internal/testenv"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Suite{M: m}) }
