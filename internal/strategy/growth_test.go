package strategy

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"ckptplan/internal/gpu"
	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/unit"
)

// deep is a plain model of many equal layers.
func deep(t testing.TB, layers int) *memory.Program {
	t.Helper()
	s, err := model.Load("deep.yaml", []byte("{L: "+strconv.Itoa(layers)+", S: 1024, H: 1024, B: 8, heads: 16, dtype: bf16}"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := memory.NewPrograms(s, false).Kind("none")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// cancelled runs a search whose context ends after a while, and says how long it went on after that; ended is false if it
// was done before.
func cancelled(t testing.TB, p *memory.Program, class string, budget unit.Bytes, sheet *gpu.Sheet, after time.Duration) (late time.Duration, ended bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	begin := time.Now()
	_, err := Optimize(ctx, p, Request{Budget: budget, Sheet: sheet, Class: class})
	late = time.Since(begin) - after
	var no *NoPlanError
	if err != nil && !errors.As(err, &no) && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	return late, errors.Is(err, context.DeadlineExceeded)
}

// TestSearchEndsWithContext: whenever its context ends, a search of any class ends. How soon is what BenchmarkCancel says;
// here only a search that goes on regardless is an error.
func TestSearchEndsWithContext(t *testing.T) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		t.Fatal(err)
	}
	p := deep(t, 1000)
	for _, class := range []string{"flat", "nested", "auto"} {
		for after := 10 * time.Millisecond; after < time.Second; after *= 5 {
			if late, ended := cancelled(t, p, class, 150e9, sheet, after); ended && late > 20*time.Second {
				t.Errorf("%s: %v after the context had ended", class, late)
			}
		}
	}
}

// BenchmarkCancel reports how long a search of 1,000 layers goes on after its context has ended, at the most.
func BenchmarkCancel(b *testing.B) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		b.Fatal(err)
	}
	p := deep(b, 1000)
	var most time.Duration
	for b.Loop() {
		for _, class := range []string{"flat", "nested", "auto"} {
			for _, budget := range []unit.Bytes{55e9, 150e9} {
				for after := 10 * time.Millisecond; after < 2*time.Second; after *= 3 {
					if late, ended := cancelled(b, p, class, budget, sheet, after); ended {
						most = max(most, late)
					}
				}
			}
		}
	}
	b.ReportMetric(float64(most.Milliseconds()), "ms-late")
}

// TestTooManyLayers: a model of 100,000 layers is refused before its graph is built.
func TestTooManyLayers(t *testing.T) {
	if err := Searchable(&spec.Spec{L: 100_000}); err == nil || err.Error() != "plans are searched for models of at most 10000 layers: this one has 100000" {
		t.Error(err)
	}
	if err := Searchable(&spec.Spec{L: 9_000, DecoderL: 1_000}); err != nil {
		t.Error(err)
	}
}

// BenchmarkDeep plans 1,000 equal layers at a budget at which many plans are nearly as fast, and at one that leaves little.
func BenchmarkDeep(b *testing.B) {
	sheet, err := gpu.Lookup("a100-80gb")
	if err != nil {
		b.Fatal(err)
	}
	p := deep(b, 1000)
	for _, budget := range []unit.Bytes{130e9, 400e9} {
		b.Run(budget.Decimal(), func(b *testing.B) {
			for b.Loop() {
				if _, err := Optimize(context.Background(), p, Request{Budget: budget, Sheet: sheet}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
