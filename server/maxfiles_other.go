//go:build !unix

package server

import "math"

// maxOpenFiles returns how many files the process may open: there is no limit here.
func maxOpenFiles() int { return math.MaxInt32 }
