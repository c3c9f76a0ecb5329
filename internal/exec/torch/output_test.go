package torch

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ckptplan/internal/exec"
)

func TestRunnerOutput(t *testing.T) {
	var stages []string
	out := runnerOutput{progress: func(s string) { stages = append(stages, s) }}
	for _, piece := range []string{
		"a warning\nckptplan is ", "at: building the model\nlibrary: ckptplan is at: step 1 of 3 (memory)\n\xff rubb", "ish",
	} {
		if n, err := io.WriteString(&out, piece); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := []string{"building the model", "step 1 of 3 (memory)"}; !slices.Equal(stages, want) {
		t.Errorf("stages %q", stages)
	}
	if got, want := out.String(), "a warning\nlibrary: \uFFFD rubbish"; got != want {
		t.Errorf("the rest is %q", got)
	}
	for range 1000 { // no end of line in all of it
		_, _ = io.WriteString(&out, strings.Repeat("x", 1000))
	}
	if n := len(out.String()); n > 32<<10 {
		t.Errorf("%d bytes are kept", n)
	}
}

// TestRunnerErrorIsASentence: of what a runner wrote, the error shows a line; a file has the rest.
func TestRunnerErrorIsASentence(t *testing.T) {
	g := small(t, droppingGPT2)
	_, err := Run(t.Context(), Options{Python: interpreter(t, `printf 'Traceback:\n  File "x"\n\033[31mValueError: no\n' >&2; exit 1`), Device: "meta", Graph: g})
	var died *exec.RunnerError
	if !errors.As(err, &died) {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(died.Log) }()
	if want := "the runner ended with status 1; it wrote last: \uFFFD[31mValueError: no (all of it is in " + died.Log + ")"; err.Error() != want {
		t.Errorf("%q", err)
	}
	if log, err := os.ReadFile(died.Log); err != nil || !strings.HasPrefix(string(log), "Traceback:\n") {
		t.Errorf("%q, %v", log, err)
	}
}

// TestTimeoutSaysWhere: a run that is stopped, or killed, says what it was at.
func TestTimeoutSaysWhere(t *testing.T) {
	g := small(t, droppingGPT2)
	stage := make(chan string, 8)
	_, err := Run(t.Context(), Options{
		Python: interpreter(t, "echo 'ckptplan is at: step 2 of 5 (warm-up)' >&2; exec sleep 60"), Device: "meta", Graph: g, Timeout: 300 * time.Millisecond,
		Progress: func(s string) { stage <- s },
	})
	if want := "the runner was stopped after 300ms, at step 2 of 5 (warm-up): give it more time, fewer steps or a smaller model"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	if s := <-stage; s != "step 2 of 5 (warm-up)" {
		t.Errorf("progress %q", s)
	}
	_, err = Run(t.Context(), Options{Python: interpreter(t, "echo 'ckptplan is at: building the model' >&2; kill -9 $$"), Device: "meta", Graph: g})
	if want := "the runner was killed by signal 9 (killed) at building the model: the system kills so when its memory is used up"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

// TestTorchStages: a run on the CPU says each step that it is at, and stops timing when that is enough.
func TestTorchStages(t *testing.T) {
	py := torchPython(t)
	g := small(t, droppingGPT2)
	var stages []string
	m, err := Run(t.Context(), Options{
		Python: py, Device: "cpu", Graph: g, Plan: named(t, g, "full"), Values: true, Warmup: 2, Steps: 4, Enough: 1,
		Progress: func(s string) { stages = append(stages, s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"importing PyTorch", "building the model", "step 1 of 7 (gradients)", "checksums of the gradients",
		"step 2 of 7 (warm-up)", "step 3 of 7 (memory)", "step 4 of 7 (timed)",
	}
	if !slices.Equal(stages, want) {
		t.Errorf("stages %q", stages)
	}
	if len(m.StepTimes) != 1 {
		t.Errorf("%d steps were timed", len(m.StepTimes))
	}
}
