// Package wire is how a decision travels between a server and its clients: the
// JSON of /v1/check, /v1/check:batch and /v1/settle. Both sides use it, so that
// they cannot drift apart.
//
// Times are milliseconds with up to three decimals: exact to the microsecond,
// which is the store's tick, and readable for a person.
package wire
