package exec

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"ckptplan/internal/unit"
)

// EngineError is returned when an engine cannot be used at all: no interpreter, no PyTorch, one that is too old.
type EngineError struct{ Engine, Text string }

func (e *EngineError) Error() string {
	return fmt.Sprintf("the %s engine cannot be used: %s", e.Engine, e.Text)
}

// DeviceError is returned when the device that was asked for is not there, or is too full to start. There is
// no fallback to another device.
type DeviceError struct {
	Device string
	Text   string
	// Need and Free are set if the device is too full: --force starts anyway.
	Need, Free, Total unit.Bytes
}

func (e *DeviceError) Error() string {
	if e.Need > 0 {
		return fmt.Sprintf("device %s: the step is predicted to need %s, %s of %s are free; --force runs it anyway", e.Device, e.Need.Both(), e.Free.Both(), e.Total.Both())
	}
	return fmt.Sprintf("device %s: %s", e.Device, e.Text)
}

// MemoryError is returned when the device ran out of memory: it is an answer, not a failure.
type MemoryError struct {
	Device                                      string
	Requested, Allocated, Reserved, Free, Total unit.Bytes
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("device %s ran out of memory: %s more were asked for with %s allocated, %s reserved and %s of %s free",
		e.Device, e.Requested.Both(), e.Allocated.Both(), e.Reserved.Both(), e.Free.Both(), e.Total.Both())
}

// UnsupportedError is returned when an engine cannot run something that the plan or the spec asks for.
type UnsupportedError struct{ Engine, Text string }

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("the %s engine does not run this: %s", e.Engine, e.Text)
}

// RunnerError is returned when the process that measures died or failed in a way that has no other error.
type RunnerError struct {
	Text string
	// Output is the end of the process's output, and Log a file with all of it if it is more than a line.
	Output, Log string
}

// Error is one sentence, with the last line of the output.
func (e *RunnerError) Error() string {
	text := "the runner " + e.Text
	if last := LastLine(e.Output); last != "" {
		text += fmt.Sprintf("; it wrote last: %s", last)
	}
	if e.Log != "" {
		text += fmt.Sprintf(" (all of it is in %s)", e.Log)
	}
	return text
}

// FirstLine is the first line of a text.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// LastLine is the last line of a text, cut if it is long.
func LastLine(text string) string {
	const longest = 200
	text = strings.TrimSpace(text)
	line := []rune(strings.TrimSpace(text[strings.LastIndexAny(text, "\r\n")+1:]))
	for i, r := range line {
		if !unicode.IsPrint(r) {
			line[i] = unicode.ReplacementChar
		}
	}
	if len(line) > longest {
		return string(line[:longest]) + "…"
	}
	return string(line)
}

// TimeoutError is returned when the runner was stopped for taking too long.
type TimeoutError struct {
	After time.Duration
	// At is the last stage that the run reported, empty if there was none.
	At string
}

func (e *TimeoutError) Error() string {
	at := ""
	if e.At != "" {
		at = ", at " + e.At
	}
	return fmt.Sprintf("the runner was stopped after %s%s: give it more time, fewer steps or a smaller model", e.After, at)
}

// RecomputeError is returned when backward failed because a region's recompute is not its forward: PyTorch noticed.
type RecomputeError struct {
	Text   string
	Causes []string
}

func (e *RecomputeError) Error() string {
	if len(e.Causes) == 0 {
		return e.Text
	}
	return strings.Join(e.Causes, "; ") + " (" + e.Text + ")"
}

// OtherModelError is returned when the model that ran is not the one that was predicted.
type OtherModelError struct {
	MadeOf              string
	Measured, Predicted int64 // parameters
}

func (e *OtherModelError) Error() string {
	return fmt.Sprintf("%s has %d parameters where the spec has %d: the model that ran is not the one that was predicted", e.MadeOf, e.Measured, e.Predicted)
}
