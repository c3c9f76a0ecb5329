package main

import (
	"context"
	"fmt"
	"runtime/debug"
)

// interruptible gives the answer to a question, or the context's error as soon as the context has ended: building and
// walking a model of 10,000 layers takes a second in which nobody looks at the context. A question is only arithmetic, so
// that one which is left unanswered leaves nothing behind.
func interruptible[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	type answer struct {
		value    T
		err      error
		panicked string
	}
	answers := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if r := recover(); r != nil {
				a.panicked = fmt.Sprintf("%v\n%s", r, debug.Stack())
			}
			answers <- a
		}()
		a.value, a.err = ask()
	}()
	select {
	case a := <-answers:
		if a.panicked != "" {
			panic(a.panicked)
		}
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
