// Package dtype holds element types and the precisions of a training step, which say what weights and autocast use.
package dtype

// DType is the element type of a tensor.
type DType uint8

// The element types that appear in a training step.
const (
	F32 DType = iota
	BF16
	F16
	I64
	I32
	Bool
	U64
	U8
)

var dtypes = [...]struct {
	name string
	size int64
}{F32: {"float32", 4}, BF16: {"bfloat16", 2}, F16: {"float16", 2}, I64: {"int64", 8}, I32: {"int32", 4}, Bool: {"bool", 1}, U64: {"uint64", 8}, U8: {"uint8", 1}}

// Size is the bytes of one element.
func (d DType) Size() int64 { return dtypes[d].size }

func (d DType) String() string { return dtypes[d].name }

// Low is true for the 16-bit floating types.
func (d DType) Low() bool { return d == BF16 || d == F16 }

// Precision names how weights and activations are held; see Spec.Precision.
type Precision string

// The precisions of a training step. Under amp, weights are fp32 and autocast casts the inputs of matrix products.
const (
	FP32    Precision = "fp32"
	PureBF  Precision = "bf16"
	PureFP  Precision = "fp16"
	AmpBF   Precision = "amp-bf16"
	AmpFP   Precision = "amp-fp16"
	Default           = PureBF
)

// Weights is the element type of the parameters.
func (p Precision) Weights() DType {
	switch p {
	case PureBF:
		return BF16
	case PureFP:
		return F16
	}
	return F32
}

// Autocast is the type that autocast casts to, and whether autocast is on.
func (p Precision) Autocast() (DType, bool) {
	switch p {
	case AmpBF:
		return BF16, true
	case AmpFP:
		return F16, true
	}
	return F32, false
}
