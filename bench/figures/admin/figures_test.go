// Package admin_test measures the admin API of a real server on a real Redis
// and MongoDB's protocol: see make figures-admin.
package admin_test

import (
	"testing"

	"github.com/fluxgate/fluxgate/bench/figure"
	"github.com/fluxgate/fluxgate/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestFigures(t *testing.T) { figure.Run(t, func(report *figure.Report) { measure(t, report) }) }

func measure(t *testing.T, report *figure.Report) {
	redis := testenv.StartStandalone(t, testenv.Config{})
	onRedis := serve(t, "redis.uri="+redis.URI(), "mongo.enabled=false")
	applying(t, report, onRedis)
	comparing(t, report, onRedis)
	listing(t, report, onRedis)
	if figure.Smoke() {
		return // what follows has no bar, and takes long
	}
	mongo := testenv.StartMongo(t)
	firstOnMongo(t, serve(t, "redis.enabled=false", "mongo.uri="+mongo.URI(), "mongo.database=figures"))
}
