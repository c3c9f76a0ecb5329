package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// patience is how long work may take before a terminal is told that it goes on.
const patience = time.Second

// progress counts the seconds of long work on a terminal. The function it returns ends that and clears the line.
func progress(w io.Writer, what string) (stop func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(patience)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-done:
				if n > 1 {
					fmt.Fprint(f, "\r\x1b[K")
				}
				return
			case <-tick.C:
				fmt.Fprintf(f, "\r%s, %d s", what, n)
			}
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}
