package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// patience is how long work may take before its progress is shown.
const patience = time.Second

// watch shows on a terminal, second by second, that work goes on and its current stage.
type watch struct {
	what       string
	stage      atomic.Pointer[string]
	done, gone chan struct{} // nil without a terminal
}

// progress starts to watch work and shows it on w, if that is a terminal.
func progress(w io.Writer, what string) *watch {
	p := &watch{what: what}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.done, p.gone = make(chan struct{}), make(chan struct{})
		go p.show(f)
	}
	return p
}

// at sets the current stage. It may be called from any goroutine.
func (p *watch) at(stage string) { p.stage.Store(&stage) }

// stop ends the watch and clears its line.
func (p *watch) stop() {
	if p.done != nil {
		close(p.done)
		<-p.gone
	}
}

func (p *watch) show(f *os.File) {
	defer close(p.gone)
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-p.done:
			if n > 1 {
				fmt.Fprint(f, "\r\x1b[K")
			}
			return
		case <-tick.C:
			width, _, err := term.GetSize(int(f.Fd()))
			if err != nil || width <= 0 {
				width = 80
			}
			fmt.Fprintf(f, "\r%s\x1b[K", p.text(n, width-1))
		}
	}
}

// text is the line after so many seconds, cut to a width: one that wraps could not be cleared.
func (p *watch) text(seconds, width int) string {
	text := p.what
	if stage := p.stage.Load(); stage != nil {
		text += ": " + *stage
	}
	clock := fmt.Sprintf(", %d s", seconds)
	if room := max(1, width-len(clock)); len([]rune(text)) > room {
		text = string([]rune(text)[:room-1]) + "…"
	}
	return text + clock
}
