package host

import (
	"math"
)

func softmaxRows(x []float32, width int64) []float32 {
	y := make([]float32, len(x))
	n := int(width)
	for r := 0; r < len(x); r += n {
		top, total := logSumExp(x[r : r+n])
		for i, v := range x[r : r+n] {
			y[r+i] = float32(math.Exp(float64(v)-top) / total)
		}
	}
	return y
}

func logSoftmaxRows(x []float32, width int64) []float32 {
	y := make([]float32, len(x))
	n := int(width)
	for r := 0; r < len(x); r += n {
		top, total := logSumExp(x[r : r+n])
		shift := top + math.Log(total)
		for i, v := range x[r : r+n] {
			y[r+i] = float32(float64(v) - shift)
		}
	}
	return y
}

// logSumExp is the largest value of a row and Σ exp(x − largest).
func logSumExp(row []float32) (top, total float64) {
	top = math.Inf(-1)
	for _, v := range row {
		top = math.Max(top, float64(v))
	}
	for _, v := range row {
		total += math.Exp(float64(v) - top)
	}
	return top, total
}

// softmaxBackward is y·(grad − Σ grad·y) over each row.
func softmaxBackward(c *call) {
	g, y := c.in[0].Reals(), c.in[1].Reals()
	n := int(c.out[0].Shape.At(-1))
	out := make([]float32, len(g))
	for r := 0; r < len(g); r += n {
		s := dot(g[r:r+n], y[r:r+n])
		for i := r; i < r+n; i++ {
			out[i] = float32(float64(y[i]) * (float64(g[i]) - s))
		}
	}
	c.out[0].SetReals(out)
}

// logSoftmaxBackward is grad − exp(y)·Σ grad over each row.
func logSoftmaxBackward(c *call) {
	g, y := c.in[0].Reals(), c.in[1].Reals()
	n := int(c.out[0].Shape.At(-1))
	out := make([]float32, len(g))
	for r := 0; r < len(g); r += n {
		s := sum(g[r : r+n])
		for i := r; i < r+n; i++ {
			out[i] = float32(float64(g[i]) - math.Exp(float64(y[i]))*s)
		}
	}
	c.out[0].SetReals(out)
}
