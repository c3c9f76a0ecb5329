package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"ckptplan/internal/gpu"
	"ckptplan/internal/strategy"
	"ckptplan/internal/study"
	"ckptplan/internal/unit"
)

// defaultCard is the card that times are for without --gpu.
const defaultCard = "A100-80GB"

// budgetOptions name the device that a training step has to fit.
type budgetOptions struct {
	gpu     string
	budget  sizeFlag
	reserve sizeFlag
}

func (o *budgetOptions) addFlags(cmd *cobra.Command) {
	o.reserve.zero = true
	f := cmd.Flags()
	f.StringVar(&o.gpu, "gpu", "", "card to predict times for, or the YAML file of its data sheet; its memory is the budget unless --budget is given; see ckptplan gpus")
	f.Var(&o.budget, "budget", "memory of the whole device: 24GB is 24·10⁹ bytes, 24GiB is 24·2³⁰")
	f.Var(&o.reserve, "reserve", "device memory set aside for anything but tensors (default: itemised for the card)")
	_ = cmd.RegisterFlagCompletionFunc("gpu", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var names []string
		for _, s := range gpu.Sheets() {
			names = append(names, s.Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	})
	section(cmd, deviceSection)
}

// request is the device that a step is studied for: the budget is --budget, else the memory of the card that --gpu names,
// else 0 for none; times are for that card, or for the default one.
func (o *budgetOptions) request() (study.Request, error) {
	sheet, err := card(cmp.Or(o.gpu, defaultCard))
	if err != nil {
		return study.Request{}, err
	}
	r := study.Request{Request: strategy.Request{Budget: o.budget.bytes, Reserve: -1, Sheet: sheet}, Assumed: o.gpu == "", Tool: version()}
	if o.reserve.set {
		r.Reserve = o.reserve.bytes
	}
	if !o.budget.set && !r.Assumed {
		r.Budget = sheet.TotalBytes
	}
	return r, nil
}

// card is the data sheet of a card that is known by its name, or of the YAML file that --gpu names.
func card(name string) (*gpu.Sheet, error) {
	if ext := filepath.Ext(name); ext == ".yaml" || ext == ".yml" {
		src, err := readInput(name)
		if err != nil {
			return nil, &inputError{err}
		}
		sheet, err := gpu.Load(name, src)
		if err != nil {
			return nil, &inputError{err}
		}
		return sheet, nil
	}
	sheet, err := gpu.Lookup(name)
	if is[*gpu.UnknownError](err) {
		return nil, fmt.Errorf("%w; --budget 24GB works without --gpu, and --gpu my-card.yaml takes a data sheet of your own", err)
	}
	return sheet, err
}

// maxSize bounds a size that a flag gives, as a spec's own need is bounded: no device has more, and sums would overflow 64
// bits.
const maxSize = unit.PB

// sizeFlag is a flag that holds a size, and whether it was given.
type sizeFlag struct {
	bytes unit.Bytes
	set   bool
	zero  bool // 0 is a value
}

func (f *sizeFlag) Set(s string) error {
	if f.zero && strings.TrimSpace(s) == "0" {
		f.bytes, f.set = 0, true
		return nil
	}
	b, err := unit.ParseBytes(s)
	switch {
	case err != nil:
		return err
	case b > maxSize:
		return fmt.Errorf("size %q: above 1 PB, which no device has", s)
	}
	f.bytes, f.set = b, true
	return nil
}

func (f *sizeFlag) String() string {
	if f == nil || !f.set {
		return ""
	}
	return f.bytes.String()
}

// Type names the kind of value in the help.
func (f *sizeFlag) Type() string { return "size" }
