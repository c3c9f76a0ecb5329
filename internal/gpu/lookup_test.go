package gpu

import (
	"errors"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"ckptplan/configs"
)

func TestLookup(t *testing.T) {
	for _, tc := range []struct{ name, want string }{
		{"A100-80GB", "A100-80GB"},
		{"a100-80g", "A100-80GB"},
		{"A100 80GiB", "A100-80GB"},
		{"a10080gb", "A100-80GB"},
		{"NVIDIA A100-SXM4-80GB", "A100-80GB"},
		{"NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"},
		{"a100 pcie 40", "A100-40GB-PCIe"},
		{"4090", "RTX-4090"},
		{"rtx4090", "RTX-4090"},
		{"NVIDIA GeForce RTX 3090", "RTX-3090"},
		{"rtx_3090 24gb", "RTX-3090"},
		{"Tesla T4", "T4"},
		{"t4", "T4"},
		{"V100 32G", "V100-32GB"},
		{"nvidia-a10g", "A10G"},
		{"NVIDIA H100 80GB HBM3", "H100-80GB"},
		{"NVIDIA H100 PCIe", "H100-80GB-PCIe"},
		{"h100-96gb", "H100-96GB"},
		{"NVIDIA GH200 480GB", "GH200-96GB"},
		{"gh200", "GH200-96GB"},
		{"H200 141GB", "H200"},
		{"b200", "B200"},
		{"NVIDIA L4", "L4"},
		{"a6000", "RTX-A6000"},
		{"NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada"},
		{"rtx pro 6000", "RTX-PRO-6000"},
		{"2080 ti", "RTX-2080-Ti"},
		{"3080 12g", "RTX-3080-12GB"},
		{"3080ti", "RTX-3080-Ti"},
		{"rtx 4060", "RTX-4060"},
		{"4080 super", "RTX-4080-SUPER"},
		{"A10", "A10"},
		{"l40", "L40"},
		{"h20", "H20-96GB"},
		{"H100 NVL", "H100-NVL"},
		{"Tesla P100-PCIE-16GB", "P100-16GB"},
		{"titan xp", "TITAN-Xp"},
		{"mi300x", "MI300X"},
		{"AMD Instinct MI250X/MI250", "MI250X"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Lookup(tc.name)
			if err != nil || s.Name != tc.want {
				t.Errorf("Lookup(%q) = %v, %v; want %s", tc.name, s, err, tc.want)
			}
		})
	}
}

func TestLookupAmbiguous(t *testing.T) {
	for _, tc := range []struct {
		name string
		want []string
	}{
		{"a100", []string{"A100-40GB", "A100-40GB-PCIe", "A100-80GB", "A100-80GB-PCIe"}},
		{"A100 PCIe", []string{"A100-40GB-PCIe", "A100-80GB-PCIe"}},
		{"H100 SXM", []string{"H100-80GB", "H100-96GB"}},
		{"NVIDIA GeForce RTX 3080", []string{"RTX-3080-10GB", "RTX-3080-12GB", "RTX-3080-Ti"}},
		{"4060 ti", []string{"RTX-4060-Ti-16GB", "RTX-4060-Ti-8GB"}},
		{"rtx 6000", []string{"RTX-6000-Ada", "RTX-PRO-6000"}},
		{"v100", []string{"V100-16GB", "V100-32GB"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Lookup(tc.name)
			var e *AmbiguousError
			if !errors.As(err, &e) || !slices.Equal(e.Matches, tc.want) {
				t.Errorf("Lookup(%q): %v, want %v", tc.name, err, tc.want)
			}
		})
	}
}

func TestLookupUnknown(t *testing.T) {
	for _, tc := range []struct {
		name string
		near string // the first name, if any is near
	}{
		{"A11", "A10"},
		{"L41", "L4"},
		{"RTX 4088", "RTX-4080"},
		{"RTX 4090 Laptop GPU", ""},
		{"3090 Ti", "RTX-3080-Ti"},
		{"Gaudi3", ""},
		{"nvidia", ""},
		{"", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := Lookup(tc.name)
			var e *UnknownError
			if !errors.As(err, &e) {
				t.Fatalf("Lookup(%q) = %v, %v; want an *UnknownError", tc.name, s, err)
			}
			if e.All != (tc.near == "") || (tc.near != "" && e.Near[0] != tc.near) {
				t.Errorf("Lookup(%q): near %v, want %q first", tc.name, e.Near, tc.near)
			}
		})
	}
}

// TestOwnFile: reading one file finds the sheet that a search among all of them finds, and reads no other.
func TestOwnFile(t *testing.T) {
	for _, want := range Sheets() {
		got, err := ownFile(configs.GPUs, "gpus", want.Name)
		if err != nil || got == nil {
			t.Fatalf("%s: no file of its name: %v", want.Name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	broken := fstest.MapFS{
		"gpus/t4.yaml":   &fstest.MapFile{Data: []byte("name: [")},
		"gpus/a10g.yaml": &fstest.MapFile{Data: []byte("name: [")},
	}
	if s, err := ownFile(broken, "gpus", "4090"); s != nil || err != nil {
		t.Errorf("4090 is not a file: %v, %v", s, err)
	}
	if _, err := ownFile(broken, "gpus", "t4"); err == nil {
		t.Error("a broken file is not reported")
	}
}

func BenchmarkLookup(b *testing.B) {
	for _, name := range []string{"A100-80GB", "4090"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if s, err := ownFile(configs.GPUs, "gpus", name); err != nil {
					b.Fatal(err)
				} else if s != nil {
					continue
				}
				sheets, err := loadAll(configs.GPUs, "gpus")
				if err != nil {
					b.Fatal(err)
				}
				if _, err := lookup(sheets, name); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
