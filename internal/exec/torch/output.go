package torch

import (
	"bytes"
	"os"
	"strings"
)

// stageMark begins the line with which the runner reports its stage (runner/stage.py).
const stageMark = "ckptplan is at: "

// runnerOutput is the output of a runner: lines that report its stage, and other text, of which the end is kept.
type runnerOutput struct {
	progress func(stage string) // called with each stage; may be nil
	stage    string             // the last one
	line     []byte             // the beginning of a line that is not complete
	rest     bytes.Buffer
}

func (o *runnerOutput) Write(p []byte) (int, error) {
	const longest = 4096 // of a line that is waited for
	o.line = append(o.line, p...)
	for {
		i := bytes.IndexByte(o.line, '\n')
		if i < 0 && len(o.line) > longest {
			i = len(o.line) - 1
		}
		if i < 0 {
			return len(p), nil
		}
		o.take(string(o.line[:i+1]))
		o.line = o.line[i+1:]
	}
}

// take reads a whole line. A library may have written into the same one.
func (o *runnerOutput) take(line string) {
	const kept = 16 << 10
	before, stage, marked := strings.Cut(line, stageMark)
	if o.rest.WriteString(before); o.rest.Len() > kept {
		o.rest.Next(o.rest.Len() - kept)
	}
	if !marked {
		return
	}
	o.stage = strings.TrimSpace(stage)
	if o.progress != nil {
		o.progress(o.stage)
	}
}

// String is the end of the output, without the stages.
func (o *runnerOutput) String() string {
	return strings.TrimSpace(strings.ToValidUTF8(o.rest.String()+string(o.line), "\uFFFD"))
}

// at is the stage as a part of a sentence.
func (o *runnerOutput) at() string {
	if o.stage == "" {
		return ""
	}
	return " at " + o.stage
}

// keepLog writes the output of a runner that failed to a file, if it is longer than the line that its error shows.
func keepLog(output string) (path string) {
	if !strings.Contains(strings.TrimSpace(output), "\n") {
		return ""
	}
	f, err := os.CreateTemp("", "ckptplan-runner-*.log")
	if err != nil {
		return ""
	}
	_, err = f.WriteString(strings.TrimSpace(output) + "\n")
	if closed := f.Close(); err != nil || closed != nil {
		return ""
	}
	return f.Name()
}
