module github.com/fluxgate/fluxgate

go 1.26.0
