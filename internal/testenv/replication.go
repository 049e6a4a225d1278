package testenv

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// replicationLines make a replica's first copy use a file. In a diskless sync the master
// reports the replica as online up to a second before it streams to it; a master killed
// meanwhile would lose writes that a test assumes replicated.
var replicationLines = []string{"repl-diskless-sync no"}

// inStep checks, on both servers, that a replica follows a master and gets all further
// writes.
func inStep(ctx context.Context, replica, master *Server) error {
	info, err := replica.Info(ctx, "replication")
	if err != nil {
		return err
	}
	if info["master_port"] != strconv.Itoa(master.port) {
		return fmt.Errorf("%s does not replicate %s", replica.addr, master.addr)
	}
	if link := info["master_link_status"]; link != "up" {
		return fmt.Errorf("%s: master_link_status is %q", replica.addr, link)
	}
	if info, err = master.Info(ctx, "replication"); err != nil {
		return err
	}
	// slave0:ip=127.0.0.1,port=6380,state=online,offset=14,lag=0
	port := fmt.Sprintf(",port=%d,", replica.port)
	for name, value := range info {
		if strings.HasPrefix(name, "slave") && strings.Contains(value, port) && strings.Contains(value, "state=online") {
			return nil
		}
	}
	return fmt.Errorf("%s does not stream to %s yet", master.addr, replica.addr)
}
