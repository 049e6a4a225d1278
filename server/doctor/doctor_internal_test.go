package doctor

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/fluxgate/fluxgate/store/redisstore"
)

type redisReply string

func (e redisReply) Error() string { return string(e) }
func (redisReply) RedisError()     {}

// Errors of Redis have a remedy that names what to change.
func TestRedisRemedy(t *testing.T) {
	for reply, want := range map[string]string{
		"OOM command not allowed when used memory > 'maxmemory'.": "memory",
		"READONLY You can't write against a read only replica.":   "master",
		"CLUSTERDOWN The cluster is down":                         "redis-cli --cluster check",
		"NOPERM this user has no permissions":                     "ACL",
		"NOAUTH Authentication required.":                         "password",
		"MISCONF Redis is configured to save":                     "https://fluxgate.github.io/fluxgate/redis#errors",
	} {
		err := fmt.Errorf("2 of 2 decisions failed: %w: %w", redisstore.ErrUnavailable, redisReply(reply))
		if got := redisRemedy(err); !strings.Contains(got, want) {
			t.Errorf("%s: %q", reply, got)
		}
	}
	if got := redisRemedy(errors.Join(redisstore.ErrUnavailable, io.EOF)); got != "see https://fluxgate.github.io/fluxgate/redis#errors-and-what-to-do" {
		t.Errorf("%q", got)
	}
}
