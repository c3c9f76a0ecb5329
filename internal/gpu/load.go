package gpu

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"ckptplan/configs"
	"ckptplan/internal/unit"
)

// file is the form of a data sheet in YAML, in the units that data sheets print.
type file struct {
	Name              string    `yaml:"name"`
	Aliases           []string  `yaml:"aliases"`
	SoldAs            int64     `yaml:"sold_as_gb"` // decimal GB
	Memory            int64     `yaml:"memory_mib"` // MiB that PyTorch sees
	MemorySource      string    `yaml:"memory_source"`
	Peak              filePeaks `yaml:"peak_tflops"`        // TFLOP/s, dense
	Bandwidth         float64   `yaml:"bandwidth_gb_s"`     // decimal GB/s
	HostLink          float64   `yaml:"host_link_gb_s"`     // decimal GB/s one way
	ComputeCapability string    `yaml:"compute_capability"` // NVIDIA
	GFX               string    `yaml:"gfx"`                // AMD
	SMs               int       `yaml:"sms"`
	Source            string    `yaml:"source"`
}

type filePeaks struct {
	FP32 float64 `yaml:"fp32"`
	TF32 float64 `yaml:"tf32"`
	BF16 float64 `yaml:"bf16"`
	FP16 float64 `yaml:"fp16"`
}

// embedded reads the sheets of the binary once. A sheet that cannot be read is a broken build.
var embedded = sync.OnceValue(func() []*Sheet {
	sheets, err := loadAll(configs.GPUs, "gpus")
	if err != nil {
		panic("gpu: embedded data sheet: " + err.Error())
	}
	return sheets
})

// Sheets are all data sheets, sorted by name. The caller must not change them.
func Sheets() []*Sheet { return slices.Clone(embedded()) }

// loadAll reads every YAML file of a folder and refuses a name or alias that two sheets claim.
func loadAll(files fs.FS, folder string) ([]*Sheet, error) {
	entries, err := fs.ReadDir(files, folder)
	if err != nil {
		return nil, err
	}
	var sheets []*Sheet
	owner := map[string]string{}
	for _, e := range entries {
		src, err := fs.ReadFile(files, path.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		s, err := Load(e.Name(), src)
		if err != nil {
			return nil, err
		}
		for _, name := range append([]string{s.Name}, s.Aliases...) {
			key := joined(name)
			if other, taken := owner[key]; taken && other != s.Name {
				return nil, fmt.Errorf("%s: the name %q is also that of %s", e.Name(), name, other)
			}
			owner[key] = s.Name
		}
		sheets = append(sheets, s)
	}
	slices.SortFunc(sheets, func(a, b *Sheet) int { return cmp.Compare(a.Name, b.Name) })
	return sheets, nil
}

// Load reads one data sheet. Unknown keys, a second document and impossible values are errors, all reported
// together; name is part of their texts.
func Load(name string, src []byte) (*Sheet, error) {
	var f file
	if err := decodeStrict(name, src, &f); err != nil {
		return nil, err
	}
	s, problems := f.sheet()
	if len(problems) > 0 {
		return nil, fmt.Errorf("%s: %s", name, strings.Join(problems, "; "))
	}
	return s, nil
}

// decodeStrict decodes the one document of src into v; every error has its place as file:line:col.
func decodeStrict(name string, src []byte, v any) error {
	if len(bytes.TrimSpace(src)) == 0 {
		return fmt.Errorf("%s: empty file", name)
	}
	err := yaml.Load(src, v, yaml.WithKnownFields())
	if err == nil {
		return nil
	}
	var all *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &all):
		var places []error
		for _, e := range all.Errors {
			places = append(places, fmt.Errorf("%s:%d:%d: %s", name, e.Mark.Line, e.Mark.Column, e.Message))
		}
		return errors.Join(places...)
	case errors.As(err, &one):
		return fmt.Errorf("%s:%d:%d: %s", name, one.Mark.Line, one.Mark.Column, one.Message)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// sheet turns the units of the file into bytes, FLOP/s and bytes/s, and lists impossible values.
func (f *file) sheet() (*Sheet, []string) {
	var problems []string
	rate := func(key string, value, scale float64, required bool) int64 {
		if value < 0 || (required && value == 0) || !(value*scale < math.MaxInt64) {
			problems = append(problems, key+" must be a positive number")
			return 0
		}
		return int64(math.Round(value * scale))
	}
	text := func(key, value string) {
		if strings.TrimSpace(value) == "" {
			problems = append(problems, key+" is missing")
		}
	}
	text("name", f.Name)
	text("memory_source", f.MemorySource)
	text("source", f.Source)
	s := &Sheet{
		Name: f.Name, Aliases: f.Aliases,
		SoldAs:       unit.Bytes(rate("sold_as_gb", float64(f.SoldAs), 1e9, true)),
		TotalBytes:   unit.Bytes(rate("memory_mib", float64(f.Memory), float64(unit.MiB), true)),
		MemorySource: f.MemorySource,
		Peaks: Peaks{
			FP32: rate("peak_tflops.fp32", f.Peak.FP32, 1e12, true),
			TF32: rate("peak_tflops.tf32", f.Peak.TF32, 1e12, false),
			BF16: rate("peak_tflops.bf16", f.Peak.BF16, 1e12, false),
			FP16: rate("peak_tflops.fp16", f.Peak.FP16, 1e12, false),
		},
		Bandwidth: rate("bandwidth_gb_s", f.Bandwidth, 1e9, true),
		HostLink:  rate("host_link_gb_s", f.HostLink, 1e9, true),
		SMs:       f.SMs, Source: f.Source,
	}
	if f.SMs < 1 {
		problems = append(problems, "sms must be a positive number")
	}
	switch c, ok := parseCapability(f.ComputeCapability); {
	case f.GFX == "" && !ok:
		problems = append(problems, fmt.Sprintf("compute_capability %q is not of the form 9.0", f.ComputeCapability))
	case f.GFX == "":
		s.ComputeCapability = c
	case f.ComputeCapability != "":
		problems = append(problems, "compute_capability is of a card by NVIDIA, gfx of one by AMD: give one of them")
	case !strings.HasPrefix(f.GFX, "gfx"):
		problems = append(problems, fmt.Sprintf("gfx %q is not of the form gfx942", f.GFX))
	default:
		s.GFX = f.GFX
	}
	return s, problems
}

func parseCapability(text string) (Capability, bool) {
	major, minor, _ := strings.Cut(text, ".")
	var c Capability
	var err1, err2 error
	c.Major, err1 = strconv.Atoi(major)
	c.Minor, err2 = strconv.Atoi(minor)
	return c, err1 == nil && err2 == nil && c.Major > 0 && c.Minor >= 0
}

// String is the capability as CUDA writes it: "9.0".
func (c Capability) String() string { return fmt.Sprintf("%d.%d", c.Major, c.Minor) }
