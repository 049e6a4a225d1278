package redisstore

import (
	"crypto/sha1" //nolint:gosec // the name of a script in Redis is its SHA-1
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed lua/constants.lua lua/script lua/decide lua/kinds
var decideModules embed.FS

// decideScript is assembled from modules. Each sees the local variables of those before it. Those
// in lua/decide and lua/kinds are functions of their own, which are called where a call needs them.
var decideScript = modules("constants", "script/protocol", "script/refill", "script/values") +
	"local function define_takes(shared)\n" +
	modules("constants", "kinds/shared", "kinds/period", "kinds/slot", "kinds/fast") +
	"return takes\nend\n" +
	"local function define_kinds(shared)\n" +
	modules("constants", "kinds/shared", "kinds/period", "kinds/slot", "kinds/records", "kinds/carry", "kinds/steps",
		"kinds/holders", "kinds/views", "kinds/settle") +
	"shared.kinds = kinds\nreturn kinds\nend\n" +
	"local function define_decide(shared)\n" +
	modules("constants", "decide/states", "decide/request", "decide/settle") +
	"return shared.decide\nend\n" +
	modules("script/shared", "script/fast", "script/run")

func modules(names ...string) string {
	var script strings.Builder
	for _, name := range names {
		source, err := decideModules.ReadFile("lua/" + name + ".lua")
		if err != nil {
			panic(err) // not embedded
		}
		script.Write(source)
	}
	return script.String()
}

// agreeScript and resetScript are short, and sent every time.
//
//go:embed lua/agree.lua
var agreeScript string

//go:embed lua/reset.lua
var resetScript string

var decideSHA = func() string {
	sum := sha1.Sum([]byte(decideScript)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}()
