// Package thorough says how much the tests do. They are quick as `go test ./...` runs them; with -tags thorough, as the
// gate does, they try every case and go through long ones. Only tests import it.
package thorough

import "testing"

// Skip leaves a long test to the gate.
func Skip(t testing.TB) {
	t.Helper()
	if !On {
		t.Skip("long: go test -tags thorough runs it")
	}
}

// Or is all if everything is tried, else quick.
func Or[T any](all, quick T) T {
	if On {
		return all
	}
	return quick
}
