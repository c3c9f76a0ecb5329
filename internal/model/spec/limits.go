package spec

import (
	"fmt"
	"math"

	"ckptplan/internal/model/dtype"
)

// MaxLayers bounds what a spec may ask for; the deepest published transformers have 1000 layers.
const MaxLayers = 100_000

// maxPixels bounds the side of an image.
const maxPixels = 1 << 16

// maxBytes is where an estimate is taken for a unit slip: 1 PB.
const maxBytes = 1e15

const (
	// maxOpFLOPs bounds the work of one op, of whose backward attention takes 5/2 in whole numbers: 5·1.8·10¹⁸ < 2⁶³.
	maxOpFLOPs = 1.8e18
	// maxFLOPs and maxMoved bound a step of all its micro batches; the slowest card of a data sheet would need decades.
	maxFLOPs = 1e21
	maxMoved = 1e18
	// MaxAccum bounds the micro batches of a step, each of which takes some time.
	MaxAccum = 1_000_000_000
)

// TooLarge is true for a step that no estimate is made for: its size is taken for a unit slip.
func (s *Spec) TooLarge() bool {
	_, text := s.FurthestAbove()
	return text != ""
}

// FurthestAbove names the input that is furthest above what is common, if the step would need more than maxBytes, or so much
// work that its FLOPs or nanoseconds would not be whole numbers of 64 bits. The estimates are lower bounds in floating
// point: fp32 weights, gradients and Adam's two moments, one hidden-size and one ffn-size tensor a layer, the logits,
// and the scores of one eager layer; the products of every layer and the head, and attention, forward alone.
func (s *Spec) FurthestAbove() (key, text string) {
	f := func(n int) float64 { return float64(max(n, 0)) }
	experts, active, accum := 1.0, 1.0, math.Max(1, f(s.Train.GradAccum))
	if s.MoE != nil {
		experts, active = f(s.MoE.Experts), f(s.MoE.TopK)
	}
	layers, width := f(s.L+s.DecoderL), f(s.Heads)*f(s.HeadDim)
	weights := f(s.Vocab)*f(s.H) + f(s.MaxS)*f(s.H)*oneIf(s.Positions == "learned") +
		layers*(2*f(s.H)*f(s.HeadDim)*f(s.Heads+s.KVHeads)+2*f(s.H)*f(s.FFN)*experts)
	tokens := f(s.B) * f(s.S)
	acts := tokens * (f(s.L)*(f(s.H)+f(s.FFN)+width) + f(s.Vocab))
	acts += tokens * f(s.S) * f(s.Heads) * oneIf(s.Attention == "eager")
	attention, head, mlp := 4*tokens*f(s.S)*width, 2*tokens*f(s.H)*f(s.Vocab), 2*tokens*f(s.H)*f(s.FFN)
	step := accum * (head + layers*(attention+2*active*mlp+4*tokens*f(s.H)*width))
	switch bytes := 16*weights + 2*acts; {
	case !(bytes < maxBytes):
		text = "the step would need more than 1 PB"
	case max(attention, head, mlp) > maxOpFLOPs:
		text = "an op of the step would need more than 1.8 EFLOP"
	case step > maxFLOPs || accum*2*acts > maxMoved:
		text = "the step would take years"
	default:
		return "", ""
	}
	worst, name, value := 0.0, "", 0
	for _, in := range []struct {
		name   string
		n      int
		common float64
	}{
		{"B", s.B, 64},
		{"S", s.S, 8192},
		{"L", s.L, 64},
		{"H", s.H, 8192},
		{"heads", s.Heads, 64},
		{"ffn", s.FFN, 32768},
		{"vocab", s.Vocab, 131072},
		{"max_positions", s.MaxS, 131072},
		{"moe.experts", int(experts), 128},
		{"train.grad_accum", s.Train.GradAccum, 1024},
	} {
		if x := f(in.n) / in.common; x > worst {
			worst, name, value = x, in.name, in.n
		}
	}
	return name, fmt.Sprintf("%s: a unit slip? The largest input is %s: %d", text, name, value)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Flash2 is the reason why the flash-attn package cannot run the model, or nil.
func (s *Spec) Flash2() error {
	switch {
	case s.Positions == "alibi" || s.Positions == "relative" || s.Arch == "torch-encoder":
		return fmt.Errorf("attention flash2 is not modelled for arch %s with %s positions: use sdpa or eager", s.Arch, s.Positions)
	case s.Precision == dtype.FP32:
		return fmt.Errorf("attention flash2 has no fp32 kernel: use bf16, fp16 or amp, or attention sdpa")
	}
	return nil
}
