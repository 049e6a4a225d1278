// Package config is the configuration of the fluxgate server: one tree of keys,
// from a YAML file, the environment and the command line, each over the one
// before.
//
//	fluxgate:
//	  redis:
//	    uri: redis://localhost:6379
//	  ratelimit:
//	    default-rule-set-id: api-limits
//
// The same key is redis.uri on the command line (redis.uri=redis://…) and
// FLUXGATE_REDIS_URI in the environment. A list is written with commas in both,
// and in the file too where that is shorter. docs/configuration.md has all
// keys; it is made from the comments here.
//
// # What is promised
//
//   - Nothing is guessed at. An unknown key, an unknown FLUXGATE_ variable and a
//     value that cannot be read are errors, with the file, the line, a caret and
//     what was probably meant. [Load] reports all of them at once, and so does
//     [Config.Check] with what can be read and makes no sense.
//   - Every value knows where it came from: [Config.Print] says so, and a
//     problem is shown there.
//   - No secret is shown. Passwords in URIs, the hashes of tokens and lines of a
//     file that may have a secret stand in no error and in nothing printed.
//   - Everything is bounded: the file, its depth, the length of lists and texts,
//     and what an error lists.
package config
