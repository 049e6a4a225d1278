// Package wire encodes requests and decisions between server and client: the
// JSON of /v1/check, /v1/check:batch and /v1/settle.
//
// Times are milliseconds with up to three decimals: exact to the microsecond,
// which is the store's tick.
package wire
