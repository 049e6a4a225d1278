// Package benchmarks compares FluxGate with other limiters for make benchmarks: the same
// callers, keys and Redis, in alternating rounds. Correctness is measured beside speed.
//
// A run writes a CSV file. The page of the documentation, its tables and its plots are
// made from that file.
package benchmarks
