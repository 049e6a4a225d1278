package fluxgate

// Must is for values that a program cannot start without: it panics with the
// error if there is one.
//
//	engine := fluxgate.Must(fluxgate.New(store, rules))
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
