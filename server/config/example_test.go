package config_test

import (
	"fmt"
	"os"

	"github.com/fluxgate/fluxgate/server/config"
)

// The environment overrides the file. Errors have a position.
func ExampleLoad() {
	c, err := config.Load(config.Sources{
		File:    "testdata/documents.yaml",
		Environ: []string{"FLUXGATE_REDIS_URI=redis://gate:secret@redis:6379"},
		Set:     []string{"rules.source=file", "rules.file=" + os.DevNull},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Redis.URI, "from", c.Origin("redis.uri"))
	fmt.Println(c.Reload.Strategy, "from", c.Origin("reload.strategy"))

	_, err = config.Load(config.Sources{Set: []string{"redis.timeuot=50ms"}})
	fmt.Println(err)
	// Output:
	// redis://gate:xxxxx@redis:6379 from FLUXGATE_REDIS_URI
	// POLLING from testdata/documents.yaml:34
	// --set redis.timeuot: is not a known key: did you mean redis.timeout?
}
