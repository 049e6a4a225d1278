package main

import (
	"testing"

	"github.com/fluxgate/fluxgate/bench/figure"
)

func TestFigures(t *testing.T) { figure.Run(t, measure) }
