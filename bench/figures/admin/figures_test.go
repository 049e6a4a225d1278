// Package admin_test measures the admin API of a real server on a real Redis
// and MongoDB's protocol: see make figures-admin.
package admin_test

import (
	"flag"
	"os"
	"testing"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

var measure = flag.Bool("figures", false, "measure the figures, which takes minutes")

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) {
	if !*measure {
		t.Skip("figures are measured by make figures-admin")
	}
	report := figure.NewReport(os.Stdout)
	redis := testenv.StartStandalone(t, testenv.Config{})
	onRedis := serve(t, "redis.uri="+redis.URI(), "mongo.enabled=false")
	applying(t, report, onRedis)
	comparing(t, report, onRedis)
	listing(t, report, onRedis)
	mongo := testenv.StartMongo(t)
	firstOnMongo(t, serve(t, "redis.enabled=false", "mongo.uri="+mongo.URI(), "mongo.database=figures"))
	if report.ExitCode() != 0 {
		t.Fail()
	}
}
