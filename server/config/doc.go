// Package config is the configuration of the fluxgate server: one tree of keys
// from a YAML file, the environment and the command line, each of which overrides
// the one before.
//
//	fluxgate:
//	  redis:
//	    uri: redis://localhost:6379
//	  ratelimit:
//	    default-rule-set-id: api-limits
//
// The same key is redis.uri on the command line (redis.uri=redis://…) and
// FLUXGATE_REDIS_URI in the environment. A list is written with commas in both,
// and may be in the file. docs/configuration.md has all keys; it is generated from
// the comments here.
//
// The values of the environment and the command line are laid over the tree of
// the file, which is then decoded once.
//
// # Promises
//
//   - An unknown key, an unknown FLUXGATE_ variable and a value of another type
//     are errors. An error has the file, the line and a suggestion.
//     [Load] reports all of them at once, [Config.Check] all invalid values.
//   - [Config.Print] shows where each value comes from.
//   - No error and no output shows a secret: no password in a URI, no hash of a
//     token, no line of a file that may hold a secret.
//   - Everything is bounded: the file, its depth, the length of lists and strings,
//     and the number of problems in an error.
package config
