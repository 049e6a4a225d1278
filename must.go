package fluxgate

// Must returns the value, or panics with the error. It is for values that a
// program cannot start without.
//
//	engine := fluxgate.Must(fluxgate.New(store, rules))
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
