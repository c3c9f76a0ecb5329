package unit

import "testing"

func TestPrint(t *testing.T) {
	for _, tc := range []struct{ name, got, want string }{
		{"zero", Bytes(0).String(), "0 B"},
		{"bytes", Bytes(1023).String(), "1023 B"},
		{"KiB", Bytes(1536).String(), "1.50 KiB"},
		{"just under a GiB", (GiB - 1).String(), "1024 MiB"},
		{"GiB", GiB.String(), "1.00 GiB"},
		{"rounds up a digit", Bytes(10_737_000_000).String(), "10.0 GiB"}, // 9.9996 GiB
		{"negative", (-3 * GiB / 2).String(), "-1.50 GiB"},
		{"both", Bytes(21_300_000_000).Both(), "21.3 GB (19.8 GiB)"},
		{"echo", (24 * GB).Echo(), "24.00 GB (22.35 GiB)"},
		{"echo of bytes", Bytes(512).Echo(), "512 B (512 B)"},
		{"largest", Bytes(1<<63 - 1).String(), "8192 PiB"},
		{"flops", FLOPs(312_000_000_000_000).String(), "312 TFLOP"},
		{"few flops", FLOPs(7).String(), "7 FLOP"},
		{"ns", Duration(999).String(), "999 ns"},
		{"µs", (3 * Microsecond).String(), "3.00 µs"},
		{"ms", Duration(1_234_567).String(), "1.23 ms"},
		{"s", (90 * Second).String(), "90.0 s"},
		{"no time", Duration(0).String(), "0 ns"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("got %q, want %q", tc.got, tc.want)
			}
		})
	}
}

func TestCommonScale(t *testing.T) {
	s := CommonScale(3*MiB, -20*GiB, 0, 1)
	if s.Unit != "GiB" {
		t.Fatalf("unit %s, want GiB: the largest magnitude decides", s.Unit)
	}
	for _, tc := range []struct {
		b    Bytes
		want string
	}{
		{20 * GiB, "20.0"},
		{-20 * GiB, "-20.0"},
		{3 * MiB, "0.00293"}, // 3/1024
		{0, "0"},
		{1, "0.000000000931"}, // 2⁻³⁰: not zero, so not printed as zero
		{2000 * GiB, "2000"},
	} {
		if got := s.Format(tc.b); got != tc.want {
			t.Errorf("Format(%d) = %q, want %q", tc.b, got, tc.want)
		}
	}
	if s := CommonScale(); s.Unit != "B" {
		t.Errorf("an empty column has unit %q, want B", s.Unit)
	}
}

func TestBytesFlag(t *testing.T) {
	var b Bytes
	if err := b.Set("24GiB"); err != nil || b != 24*GiB {
		t.Errorf("Set(24GiB) = %v, %v", b, err)
	}
	if err := b.Set("24G"); err == nil || b != 24*GiB {
		t.Errorf("Set(24G) gave %v and left %v; want an error and the old value", err, b)
	}
}
