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
//     are errors, with the file, the line, a caret and what was probably meant.
//     [Load] reports all of them at once, and [Config.Check] all values that are
//     not valid.
//   - [Config.Print] says where each value comes from, and a problem is shown
//     there.
//   - No secret is shown. Passwords in URIs, the hashes of tokens and lines of a
//     file that may hold a secret are in no error and in no output.
//   - Everything is bounded: the file, its depth, the length of lists and strings,
//     and the number of problems in an error.
package config
