package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"ckptplan/internal/exec"
	"ckptplan/internal/unit"
)

// shareFlag is a flag that holds a share of something, written in per cent.
type shareFlag float64

func (s *shareFlag) Set(text string) error {
	number, ok := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !ok || !(v >= 0) || v > 1e6 {
		return errors.New("must be in per cent, such as 5%")
	}
	*s = shareFlag(v / 100)
	return nil
}

func (s *shareFlag) String() string {
	if s == nil || *s == 0 {
		return ""
	}
	return strconv.FormatFloat(100*float64(*s), 'g', 6, 64) + "%"
}

// Type names the kind of value in the help.
func (s *shareFlag) Type() string { return "percent" }

// limitFlag is a part of a device's memory: per cent or a size.
type limitFlag struct {
	percent float64
	bytes   unit.Bytes
}

func (l *limitFlag) Set(text string) error {
	if number, ok := strings.CutSuffix(strings.TrimSpace(text), "%"); ok {
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(v > 0) || v > 100 {
			return errors.New("a share of the device must be above 0% and at most 100%")
		}
		*l = limitFlag{percent: v}
		return nil
	}
	b, err := unit.ParseBytes(text)
	if err != nil {
		return err
	}
	*l = limitFlag{bytes: b}
	return nil
}

func (l *limitFlag) String() string {
	switch {
	case l == nil || *l == limitFlag{}:
		return ""
	case l.percent > 0:
		return strconv.FormatFloat(l.percent, 'g', 6, 64) + "%"
	}
	return l.bytes.String()
}

// Type names the kind of value in the help.
func (l *limitFlag) Type() string { return "size" }

// of is the limit in bytes of a device with so much memory.
func (l *limitFlag) of(total unit.Bytes) unit.Bytes {
	if l.percent > 0 {
		return unit.Bytes(float64(total) * l.percent / 100)
	}
	return l.bytes
}

// share is the limit as a share of a device's memory, 0 without a limit.
func (l *limitFlag) share(total unit.Bytes) (float64, error) {
	if l.bytes > total {
		return 0, usagef("--limit %s is more than the device has: %s", l.bytes.Both(), total.Both())
	}
	return float64(l.of(total)) / float64(total), nil
}

// tooLargeError is a step that does not fit this machine's own memory.
type tooLargeError struct{ need, available unit.Bytes }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("device cpu: the step is predicted to need %s, and this machine has %s available; --device meta needs no memory, --force runs it anyway", e.need.Both(), e.available.Both())
}

// fitsMachine refuses a step that would fill this machine's memory.
func (o *engineOptions) fitsMachine(need unit.Bytes) error {
	if free := machineMemory(); !o.force && free > 0 && need > free {
		return &tooLargeError{need, free}
	}
	return nil
}

// machineMemory is the memory that this machine can give to a new process without swapping; 0 if that is unknown.
func machineMemory() unit.Bytes {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) < 2 || fields[0] != "MemAvailable:" {
			continue
		}
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0
		}
		return unit.Bytes(n) * unit.KiB
	}
	return 0
}

// engineExit is the exit code of an error of an engine.
func engineExit(err error) (code int, ok bool) {
	switch {
	case is[*exec.MemoryError](err):
		return exitDoesNotFit, true
	case is[*exec.RecomputeError](err), is[*exec.OtherModelError](err):
		return exitDiffers, true
	case is[*exec.EngineError](err), is[*exec.DeviceError](err), is[*exec.UnsupportedError](err), is[*tooLargeError](err):
		return exitNoDevice, true
	}
	return 0, false
}
