// Package insight counts the decisions of a server over the last minutes, in bounded memory.
// These live numbers are of the whole fleet: rates by rule, the heaviest callers, and the servers.
package insight
