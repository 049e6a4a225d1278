// Package testenv starts real servers for tests. Redis: standalone, a Cluster of three
// masters and three replicas, and a Sentinel group, each optionally with TLS and ACL
// users. MongoDB: FerretDB over SQLite, a server with MongoDB's protocol that is built
// from source, because MongoDB is in no package registry ([StartMongo], [SharedMongo]).
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
// A test that flushes scripts, changes settings, kills, freezes, fails over or migrates
// starts its own, which ends with the test:
//
//	c := testenv.StartCluster(t, testenv.Config{TLS: true})
//	old, err := c.MasterOf(ctx, testenv.Slot("some-key"))
//	...
//	err = old.Kill()
//	err = c.WaitHealthy(ctx) // a replica has taken over, every slot is covered
//
// # Without servers
//
// Under go test -short a test that needs a server is skipped. Otherwise a server that
// cannot start fails the test.
//
// FLUXGATE_TEST_REDIS_URI makes [SharedStandalone] use another server, which is never
// stopped; [Server.Owned] returns false for it. FLUXGATE_TEST_MONGO_URI does the same for
// [SharedMongo].
//
// # Cleanup
//
// Servers end with their test or with [Main], and on Linux the kernel kills them if the
// test binary dies first. Their data directories are removed when they end; those of a
// killed test binary remain as fluxgate-testenv-* in /dev/shm, or in TMPDIR if that is
// set.
//
// Servers listen on 127.0.0.1 only. They write nothing to disk unless [Config.Persist] is
// set, so a restarted server is empty.
package testenv
