// Package testenv starts real servers for tests. Redis: standalone, a Cluster of
// three masters and three replicas, and a Sentinel group, each with TLS and ACL
// users where a test wants them. MongoDB: FerretDB over SQLite, a server that
// speaks MongoDB's protocol and is built from source, since MongoDB itself is in
// no package registry ([StartMongo], [SharedMongo]).
//
// # Shared and private servers
//
// A test that only reads and writes its own keys shares a server with the rest
// of the test binary:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
//	func TestTake(t *testing.T) {
//		srv := testenv.SharedStandalone(t)
//		client := redis.NewClient(&redis.Options{Addr: srv.Addr()})
//		...
//	}
//
// A test that flushes scripts, changes settings, kills, freezes, fails over or
// migrates gets its own, which ends with the test:
//
//	c := testenv.StartCluster(t, testenv.Config{TLS: true})
//	old, err := c.MasterOf(ctx, testenv.Slot("some-key"))
//	...
//	err = old.Kill()
//	err = c.WaitHealthy(ctx) // a replica has taken over, every slot is covered
//
// # When there is no server
//
// Under go test -short a test that asks for a server is skipped. Otherwise a
// server that cannot start fails the test: a green run means the tests ran.
//
// FLUXGATE_TEST_REDIS_URI points [SharedStandalone] at another server, which the
// tests then use but never stop; [Server.Owned] tells the two apart.
// FLUXGATE_TEST_MONGO_URI does the same for [SharedMongo].
//
// # What is left behind
//
// Nothing that runs. Servers end with their test or with [Main], and on Linux
// the kernel kills them if the test binary dies first. Their data directories
// are removed when they end; those of a test binary that was killed stay as
// fluxgate-testenv-* in /dev/shm, or in TMPDIR if that is set.
//
// Servers listen on 127.0.0.1 only. They keep nothing on disk unless
// [Config.Persist] is set, so a restarted server is empty.
package testenv
