// Package insight counts what a server decides, in bounded memory: since the start for metrics,
// and of late for live numbers. Those it answers for the whole fleet: rates by rule, the heaviest
// callers, and the servers.
package insight
