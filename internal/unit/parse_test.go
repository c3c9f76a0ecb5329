package unit

import (
	"strconv"
	"strings"
	"testing"
)

func TestParseBytes(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want Bytes
	}{
		{"24GB", 24_000_000_000},
		{"24GiB", 25_769_803_776}, // 24·1073741824
		{"24gb", 24_000_000_000},
		{"24gib", 25_769_803_776},
		{"24GIB", 25_769_803_776},
		{"1000000", 1_000_000},
		{"11.17GiB", 11_993_696_174}, // ⌊11.17·2³⁰⌋: what PyTorch prints of a card
		{"14.73GiB", 15_816_217_067},
		{"15.78GiB", 16_943_645_982},
		{"23.65GiB", 25_393_994_137},
		{"31.75GiB", 34_091_302_912},
		{"39.59GiB", 42_509_438_812},
		{"79.15GiB", 84_986_665_369},
		{"24576MiB", 25_769_803_776}, // nvidia-smi
		{"81559MiB", 85_520_809_984}, // nvidia-smi of an H100
		{"80000000000", 80_000_000_000},
		{"512B", 512},
		{"1kB", 1000},
		{"1KB", 1000},
		{"1KiB", 1024},
		{"1.5GiB", 1_610_612_736},
		{"24.00GB", 24_000_000_000},
		{".5kB", 500},
		{"0.000000001GB", 1},
		{"7TiB", 7_696_581_394_432},
		{"1PB", 1_000_000_000_000_000},
		{"9223372036854775807", 9_223_372_036_854_775_807},
	} {
		t.Run(tc.in, func(t *testing.T) {
			got, err := ParseBytes(tc.in)
			if err != nil || got != tc.want {
				t.Errorf("ParseBytes(%q) = %d, %v; want %d", tc.in, got, err, tc.want)
			}
		})
	}
}

func TestParseBytesRefuses(t *testing.T) {
	for _, tc := range []struct{ name, in, says string }{
		{"prefix alone", "24G", "write 24GB (24·10⁹ bytes) or 24GiB (24·2³⁰ bytes)"},
		{"binary prefix alone", "24Gi", "write 24GB (24·10⁹ bytes) or 24GiB (24·2³⁰ bytes)"},
		{"small prefix alone", "512m", "write 512MB (512·10⁶ bytes) or 512MiB (512·2²⁰ bytes)"},
		{"blank", "24 gb", "write 24GB (24·10⁹ bytes) or 24GiB"},
		{"blank behind", "24GB ", "write 24GB"},
		{"bits", "24Gb", "means bits; write 24GB"},
		{"binary bits", "24Gib", "means bits; write 24GiB"},
		{"lone b", "24b", "means bits; write 24B"},
		{"empty", "", "empty"},
		{"no number", "GB", "not a number"},
		{"word", "lots", "not a number"},
		{"unknown unit", "24XB", `unknown unit "XB"`},
		{"exponent", "1e9", "unknown unit"},
		{"thousands", "24,000", "unknown unit"},
		{"negative", "-24GB", "negative"},
		{"zero", "0", "zero"},
		{"zero with unit", "0.0GB", "zero"},
		{"part of a byte", "1.5B", "not a whole number of bytes"},
		{"part of a byte by a unit", "0.0001KiB", "zero"},
		{"bare", "24", "did you mean 24GB?"},
		{"bare as nvidia-smi counts", "24576", "did you mean 24576MiB?"},
		{"overflow", "9223372036854775808", "too large"},
		{"overflow by unit", "9000000PiB", "too large"},
		{"NaN", "NaN", "not a number"},
		{"infinity", "Inf", "not a number"},
		{"two points", "1.2.3GB", "malformed"},
		{"point at the end", "24.GB", "malformed"},
		{"point alone", ".GB", "not a number"},
		{"long", strings.Repeat("1", 100), "too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseBytes(tc.in)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("ParseBytes(%q) = %d, %v; want an error with %q", tc.in, got, err, tc.says)
			}
		})
	}
}

func FuzzParseBytes(f *testing.F) {
	for _, s := range []string{"24GB", "1.5GiB", "24G", "24 gb", "-1", "0", "9223372036854775807", "1e9", ".5kB", "\xff", "٣GB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseBytes(s)
		if err != nil {
			if got != 0 {
				t.Errorf("ParseBytes(%q) = %d beside an error", s, got)
			}
			return
		}
		if got <= 0 {
			t.Errorf("ParseBytes(%q) = %d, not positive", s, got)
		}
		again, err := ParseBytes(strconv.FormatInt(int64(got), 10) + "B")
		if err != nil || again != got {
			t.Errorf("ParseBytes(%q) = %d does not round-trip: %d, %v", s, got, again, err)
		}
	})
}
