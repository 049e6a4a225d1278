package redisstore

import (
	"encoding/binary"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fluxgate/fluxgate"
	"github.com/fluxgate/fluxgate/internal/bucket"
	"github.com/fluxgate/fluxgate/internal/testenv"
	"github.com/fluxgate/fluxgate/store"
)

// BenchmarkScript is one call with 64 takes, as many as share a call under load.
func BenchmarkScript(b *testing.B) {
	minute := fluxgate.Must(bucket.NewBand(0, 1_000_000, 1_000_000, time.Minute))
	hour := fluxgate.Must(bucket.NewBand(1, 100_000_000, 100_000_000, time.Hour))
	for _, c := range []struct {
		name  string
		keys  int
		bands []store.ExactBand
	}{
		{"64 keys of one band", 64, []store.ExactBand{minute}},
		{"64 keys of two bands", 64, []store.ExactBand{minute, hour}},
		{"one key", 1, []store.ExactBand{minute}},
	} {
		b.Run(c.name, func(b *testing.B) {
			client := newScriptClient(b, testenv.StartStandalone(b, testenv.Config{}))
			requests := make([]*shardRequest, 64)
			for i := range requests {
				requests[i] = newShardRequest(opTake, 0, time.Time{})
				requests[i].demands = []store.Demand{{Bands: c.bands, Cost: 1}}
				requests[i].keys = []string{"fluxgate:{0}:" + string(binary.LittleEndian.AppendUint32(nil, uint32(i%c.keys)))}
			}
			before := client.cpu()
			for b.Loop() {
				if _, err := client.decide(0, requests...); err != nil {
					b.Fatal(err)
				}
			}
			// CPU time of the server varies less than elapsed time.
			b.ReportMetric((client.cpu()-before)*1e9/float64(b.N), "server-ns/op")
		})
	}
}

// cpu is the CPU time of the server in seconds.
func (c scriptClient) cpu() (seconds float64) {
	c.t.Helper()
	info, err := c.Info(c.t.Context(), "cpu").Result()
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.FieldsSeq(info) {
		name, value, _ := strings.Cut(line, ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			part, _ := strconv.ParseFloat(value, 64)
			seconds += part
		}
	}
	return seconds
}
