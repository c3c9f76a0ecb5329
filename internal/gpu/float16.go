package gpu

import (
	"math"

	"ckptplan/internal/model/dtype"
)

// Round is x rounded to a floating type, to nearest, ties to even.
func Round(dt dtype.DType, x float32) float32 {
	switch dt {
	case dtype.BF16:
		return RoundBF16(x)
	case dtype.F16:
		return fromF16(toF16(x))
	}
	return x
}

// RoundBF16 is x rounded to bfloat16.
func RoundBF16(x float32) float32 { return fromBF16(toBF16(x)) }

// encode rounds values into out, decode is its inverse.
func encode(dt dtype.DType, values []float32, out []uint16) []uint16 {
	out = out[:len(values)]
	if dt == dtype.BF16 {
		for i, x := range values {
			out[i] = toBF16(x)
		}
		return out
	}
	for i, x := range values {
		out[i] = toF16(x)
	}
	return out
}

func decode(dt dtype.DType, bits []uint16, out []float32) []float32 {
	out = out[:len(bits)]
	if dt == dtype.BF16 {
		for i, b := range bits {
			out[i] = fromBF16(b)
		}
		return out
	}
	for i, b := range bits {
		out[i] = fromF16(b)
	}
	return out
}

func toBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 { // NaN stays one: rounding could carry it to infinity
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

func fromBF16(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// toF16 keeps 10 bits of the significand; below 2⁻¹⁴ the spacing is 2⁻²⁴, from 65,520 on values become infinite.
func toF16(x float32) uint16 {
	b := math.Float32bits(x)
	sign, a := uint16(b>>16)&0x8000, b&0x7fffffff
	switch {
	case a > 0x7f800000:
		return sign | 0x7e00
	case a >= 0x477ff000: // 65,520
		return sign | 0x7c00
	case a < 0x38800000: // 2⁻¹⁴; a result of 1,024 is the smallest normal number
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(a))*(1<<24)))
	}
	return sign | uint16((a+0xfff+a>>13&1)>>13-112<<10)
}

// fromF16 shifts exponent and significand into place; the exponent's bias differs by 112. The product is exact for
// numbers below 2⁻¹⁴ as well.
func fromF16(b uint16) float32 {
	x := math.Float32frombits(uint32(b&0x7fff)<<13) * 0x1p112
	if x >= 1<<16 { // infinite or NaN
		x = math.Float32frombits(0x7f800000 | uint32(b&0x3ff)<<13)
	}
	return math.Float32frombits(math.Float32bits(x) | uint32(b&0x8000)<<16)
}
