package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ckptplan/internal/exec"
	"ckptplan/internal/exec/host"
	"ckptplan/internal/exec/interpreter"
	"ckptplan/internal/exec/torch"
	"ckptplan/internal/gpu"
	"ckptplan/internal/gpu/cuda"
	"ckptplan/internal/study"
	"ckptplan/internal/unit"
)

// engineOptions say where a plan runs, with which engine and for how long.
type engineOptions struct {
	device string
	engine string
	python string
	// pythonNamed is true if python is not the default.
	pythonNamed bool
	steps       count
	warmup      count
	seed        int64
	timeout     time.Duration
	enough      time.Duration // of timed steps, where their number was not given
	limit       limitFlag
	force       bool
}

func (o *engineOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.device, "device", "", "`device` to run on: the number of a CUDA device, cpu or meta")
	f.StringVar(&o.engine, "engine", "auto", "auto, host or torch")
	f.StringVar(&o.python, "python", "python3", "the `interpreter` that has PyTorch")
	f.Var(&o.steps, "steps", "`steps` to time (default 10 on a CUDA device, else 3, or fewer once 2 s have passed)")
	f.Var(&o.warmup, "warmup", "`steps` before anything is measured (default 3 on a CUDA device, else 1)")
	f.Int64Var(&o.seed, "seed", 0, "`seed` of weights, data and dropout")
	f.DurationVar(&o.timeout, "timeout", time.Hour, "`time` after which a run is stopped, such as 90s or 10m")
	f.Var(&o.limit, "limit", "device `memory` that the run may use: 80% or a size")
	f.BoolVar(&o.force, "force", false, "run even if the predicted need exceeds the free memory")
	complete(cmd, "device", "0", "cpu", "meta")
	complete(cmd, "engine", "auto", "host", "torch")
	section(cmd, runSection)
}

// ready refuses values before any work is done, and fills in what depends on the device.
func (o *engineOptions) ready(cmd *cobra.Command) error {
	o.engine, o.device = strings.ToLower(o.engine), strings.ToLower(o.device)
	o.pythonNamed = cmd.Flags().Changed("python")
	if !slices.Contains([]string{"auto", "host", "torch", "cuda"}, o.engine) {
		return usagef("--engine %q is not one of auto, host, torch", o.engine)
	}
	if o.device == "" {
		return usagef("verify needs --device: 0 (the number of a CUDA device), cpu or meta")
	}
	steps, warmup := count(3), count(1)
	if _, cuda := ordinal(o.device); cuda {
		steps, warmup = 10, 3
	} else if o.device == "host" {
		return usagef("--device host is not a device: the host engine is --device cpu --engine host")
	} else if o.device != "cpu" && o.device != "meta" {
		return usagef("--device %q is not the number of a CUDA device, cpu or meta", o.device)
	}
	for _, f := range []struct {
		name  string
		value *count
		other count
	}{{"steps", &o.steps, steps}, {"warmup", &o.warmup, warmup}} {
		if !cmd.Flags().Changed(f.name) {
			*f.value = f.other
		} else if *f.value < 1 {
			return usagef("--%s must be at least 1", f.name)
		}
	}
	if o.device == "cpu" && !cmd.Flags().Changed("steps") {
		o.enough = 2 * time.Second
	}
	if o.timeout <= 0 {
		return usagef("--timeout must be more than 0")
	}
	switch {
	case o.engine == "host" && o.device != "cpu":
		return usagef("the host engine runs on the CPU: --device cpu")
	case o.engine == "host" && cmd.Flags().Changed("warmup"):
		return usagef("--warmup is for PyTorch: the host engine's first step is like the others")
	case o.limit != (limitFlag{}) && o.device == "meta":
		return usagef("--limit needs a device with memory, which meta does not have")
	case o.limit != (limitFlag{}) && o.device == "cpu" && o.engine == "torch":
		return usagef("--limit is for CUDA devices and the host engine: PyTorch cannot be limited on the CPU")
	}
	return nil
}

// ordinal is the number of a CUDA device that is named 0 or cuda:0.
func ordinal(name string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "cuda:"))
	return n, err == nil && n >= 0
}

// device is where a plan runs.
type device struct {
	name string // meta, cpu or cuda:N
	// card is the driver's name of a CUDA device, and total its memory.
	card  string
	total unit.Bytes
}

// find is the device that was named; it never falls back to another.
func (o *engineOptions) find() (*device, error) {
	if o.engine == "cuda" {
		return nil, &exec.EngineError{Engine: "cuda", Text: "it is not part of this version; --engine torch runs on CUDA devices"}
	}
	n, numbered := ordinal(o.device)
	if !numbered {
		return &device{name: o.device}, nil
	}
	d := &device{name: fmt.Sprintf("cuda:%d", n)}
	devices, err := cuda.Discover()
	for _, dev := range devices {
		defer func() { _ = dev.Close() }() // nothing was allocated on it
	}
	switch {
	case err != nil:
		return nil, &exec.DeviceError{Device: strconv.Itoa(n), Text: err.Error()}
	case n >= len(devices):
		return nil, &exec.DeviceError{Device: strconv.Itoa(n), Text: fmt.Sprintf("there is no such device: this machine has %d, numbered from 0", len(devices))}
	}
	d.card = devices[n].Name()
	if sized, ok := devices[n].(interface{ Total() unit.Bytes }); ok {
		d.total = sized.Total()
	}
	return d, nil
}

// engine measures plans on one device.
type engine struct {
	name, device string
	// offered is the memory that a run can take, 0 if that is not known.
	offered unit.Bytes
	// values is false if no values are computed, so that none can be compared with a baseline.
	values bool
	// cpuOps is true where PyTorch's CPU dispatches the ops: its dropout and attention differ from a CUDA device's.
	cpuOps bool
	notes  []string
	// need is the device memory that a plan takes.
	need func(*study.Study, *study.Simulation) unit.Bytes
	// machine is true if that is memory of this machine.
	machine bool
	exec.Engine
}

// pick chooses the engine for a device. On the CPU that is PyTorch if there is one.
func (o *engineOptions) pick(ctx context.Context, d *device, config []byte) (*engine, error) {
	if d.name != "cpu" {
		return o.torch(d, config)
	}
	name, notes := o.engine, []string(nil)
	if name == "auto" {
		var err error
		if name, notes, err = o.cpuEngine(ctx); err != nil {
			return nil, err
		}
	}
	if name == "host" {
		return o.host(notes), nil
	}
	return o.torch(d, config)
}

// cpuEngine is the engine for the CPU where none was named, and why it is not PyTorch. An interpreter that was named
// and does not work is an error: there is no fallback.
func (o *engineOptions) cpuEngine(ctx context.Context) (name string, notes []string, err error) {
	if o.limit != (limitFlag{}) {
		return "host", []string{"using the host engine: PyTorch cannot be limited on the CPU"}, nil
	}
	found, err := torch.Installed(ctx, o.python)
	switch {
	case ctx.Err() != nil, err != nil && o.pythonNamed:
		return "", nil, err
	case !found:
		return "host", []string{fmt.Sprintf("using the host engine: %s has no PyTorch (--python names another)", o.python)}, nil
	}
	return "torch", nil, nil
}

// torch runs PyTorch.
func (o *engineOptions) torch(d *device, config []byte) (*engine, error) {
	e := &engine{name: "torch", device: d.name, values: d.name != "meta", cpuOps: d.name == "cpu"}
	var share float64
	if d.total > 0 {
		e.offered = d.total
		var err error
		if share, err = o.limit.share(d.total); err != nil {
			return nil, err
		}
		if share > 0 {
			e.offered = o.limit.of(d.total)
		}
	}
	e.Engine = torch.Options{
		Python: o.python, Device: d.name, Config: config, Warmup: int(o.warmup), Steps: int(o.steps), Seed: o.seed, Values: e.values,
		Timeout: o.timeout, Enough: o.enough, Force: o.force, Limit: share,
	}
	switch d.name {
	case "meta":
		e.need = func(*study.Study, *study.Simulation) unit.Bytes { return 0 }
	case "cpu":
		e.machine, e.need = true, func(_ *study.Study, p *study.Simulation) unit.Bytes { return unit.Bytes(p.Timeline.Peak.Bytes) }
	default:
		e.need = (*study.Study).NeedOf
	}
	return e, nil
}

// host runs the interpreter on the reference device.
func (o *engineOptions) host(notes []string) *engine {
	capacity := o.limit.bytes
	if o.limit.percent > 0 {
		capacity = o.limit.of(machineMemory())
	}
	return &engine{
		name: "host", device: "cpu", offered: capacity, values: true, notes: notes, machine: true,
		need: func(_ *study.Study, p *study.Simulation) unit.Bytes { return p.HostBytes() },
		Engine: interpreter.Options{
			Open: func() (gpu.Device, error) { return host.NewDevice(capacity), nil }, Engine: "host", Seed: o.seed, Steps: int(o.steps),
			Enough: o.enough, Timeout: o.timeout,
		},
	}
}

// run measures a plan with the engine, unless it would fill this machine's memory.
func (o *engineOptions) run(ctx context.Context, e *engine, s *study.Study, p *study.Simulation, at func(string)) (*exec.Measurement, error) {
	r := exec.Request{Graph: p.Timeline.Graph(), Plan: p.Plan, Need: e.need(s, p), Progress: at}
	if e.machine {
		if err := o.fitsMachine(r.Need); err != nil {
			return nil, err
		}
		r.Need = 0 // the runner looks after a CUDA device only
	}
	return e.Run(ctx, r)
}
