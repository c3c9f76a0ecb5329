// Ckptplan predicts the memory of a transformer's training step and plans which activations to recompute. This package
// parses flags, calls one function of a package, hands its result to report and maps errors to exit codes.
package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
)

func main() {
	collectLate(1 << 28)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// collectLate delays the garbage collector until the heap has that many bytes: most runs last milliseconds and need a few
// tens of megabytes. From its first cycle on it works as usual; under the limit alone, a run that needs more would
// collect without end.
func collectLate(limit int64) {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(limit)
	sentinel := &struct{ self *int }{} // the first cycle finds it unreachable
	runtime.AddCleanup(sentinel, func(percent int) {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(math.MaxInt64)
	}, 100)
}

// run is the command line as a function. It returns the exit code.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) (code int) {
	defer func() {
		if r := recover(); r != nil {
			fmt.Fprintf(stderr, "ckptplan: unexpected: %v\n%s", r, debug.Stack())
			code = exitUnexpected
		}
	}()
	root := newRootCommand(&globals{environ: environ})
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "ckptplan: %s\n", message(err))
	return exitCode(err)
}
