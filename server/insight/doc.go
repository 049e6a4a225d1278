// Package insight keeps what a server has decided of late, in bounded memory, and answers
// for the whole fleet: rates by rule, the heaviest callers, and the servers.
package insight
