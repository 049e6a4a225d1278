package redisstore

import (
	"crypto/sha1" //nolint:gosec // the name of a script in Redis is its SHA-1
	_ "embed"
	"encoding/hex"
	"strings"
)

//go:embed lua/decide.lua
var decideSource string

//go:embed lua/kinds.lua
var kindsSource string

// decideScript is decide.lua with kinds.lua where it says so.
var decideScript = strings.Replace(decideSource, "-- kinds.lua\n", kindsSource, 1)

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
