package torch

import (
	"context"
	"errors"
	"strings"
	"testing"

	"ckptplan/internal/exec"
)

func TestInstalled(t *testing.T) {
	for _, c := range []struct {
		script, text string
		has          bool
	}{
		{script: "echo ckptplan: torch True", has: true},
		{script: "echo a banner; echo ckptplan: torch False"},
		{script: "echo rubbish", text: "is not a working Python"},
		{script: "exit 3", text: "is not a working Python"},
		{script: "yes | head -c 10000000", text: "is not a working Python"},
	} {
		has, err := Installed(t.Context(), interpreter(t, c.script))
		var engine *exec.EngineError
		if has != c.has || (c.text == "") != (err == nil) || err != nil && (!errors.As(err, &engine) || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%s: %v, %v", c.script, has, err)
		}
	}
	if _, err := Installed(t.Context(), "./none"); err == nil || err.Error() != "the torch engine cannot be used: ./none cannot be started: no such file or directory" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Installed(ctx, interpreter(t, "sleep 60")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
