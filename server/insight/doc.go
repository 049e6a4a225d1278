// Package insight counts the decisions of a server in bounded memory: since the start for
// metrics, and over the last minutes for live numbers. Live numbers are of the whole fleet:
// rates by rule, the heaviest callers, and the servers.
package insight
