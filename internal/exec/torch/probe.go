package torch

import (
	"bytes"
	"context"
	"fmt"
	osexec "os/exec"
	"time"

	"ckptplan/internal/exec"
)

// Installed asks an interpreter whether it has PyTorch, without importing it, which takes seconds. The error is an
// *EngineError if there is no answer, or the context's.
func Installed(ctx context.Context, python string) (bool, error) {
	const (
		patience = time.Minute
		ask      = "import importlib.util; print('ckptplan: torch', importlib.util.find_spec('torch') is not None)"
	)
	timed, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := osexec.CommandContext(timed, python, "-c", ask)
	defer inGroup(cmd)()
	cmd.WaitDelay = time.Second
	var out beginning
	cmd.Stdout = &out
	err := cmd.Run()
	silent := func(text string) (bool, error) {
		return false, &exec.EngineError{Engine: "torch", Text: python + " " + text}
	}
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case bytes.Contains(out.text, []byte("ckptplan: torch True")):
		return true, nil
	case bytes.Contains(out.text, []byte("ckptplan: torch False")):
		return false, nil
	case timed.Err() != nil:
		return silent(fmt.Sprintf("gave no answer in %s", patience))
	case err != nil && cmd.Process == nil:
		return silent("cannot be started: " + reason(err))
	}
	return silent("is not a working Python: it was asked for its modules and did not answer")
}

// beginning keeps the first bytes that are written to it.
type beginning struct{ text []byte }

func (b *beginning) Write(p []byte) (int, error) {
	const kept = 4096
	b.text = append(b.text, p[:min(len(p), kept-len(b.text))]...)
	return len(p), nil
}
