package study

import (
	"fmt"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
)

// CardError says that a card has no kernel for what a spec asks.
type CardError struct{ text string }

func (e *CardError) Error() string { return e.text }

// canRun refuses what ends in an error on the card: the flash-attn package asks for Ampere or newer.
func canRun(card *gpu.Sheet, s *spec.Spec) error {
	if s.Attention == "flash2" && card != nil && !card.RunsFlash() {
		return &CardError{fmt.Sprintf("attention flash2 needs compute capability 8.0 (Ampere), and %s has %s: use sdpa or eager", card.Name, card.Architecture())}
	}
	return nil
}

// cardMistakes are what runs on the card, but with other kernels than those that are counted.
// Source: aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, torch.cuda.is_bf16_supported.
func (s *Study) cardMistakes() []string {
	card := s.Sheet
	if s.Assumed {
		return nil
	}
	if card.GFX != "" {
		return []string{fmt.Sprintf("the ops are those that PyTorch runs on CUDA: %s (%s) has kernels of ROCm, whose attention and workspaces may hold other bytes", card.Name, card.GFX)}
	}
	low, autocast := s.Spec.AutocastType()
	if !autocast {
		low = s.Spec.WeightType()
	}
	switch sdpa := s.Spec.Attention == "sdpa"; {
	case card.RunsFlash() || !low.Low():
	case low == dtype.BF16 && sdpa:
		return []string{fmt.Sprintf("%s (compute capability %s) has no bf16: PyTorch emulates it, and sdpa falls back to math, which keeps scores of S×S that are not counted here; fp16 is what the card has", card.Name, card.Architecture())}
	case low == dtype.BF16:
		return []string{fmt.Sprintf("%s (compute capability %s) has no bf16: PyTorch emulates it; fp16 is what the card has", card.Name, card.Architecture())}
	case sdpa:
		return []string{fmt.Sprintf("sdpa is counted with its flash kernel, which needs compute capability 8.0: %s (%s) runs another", card.Name, card.Architecture())}
	}
	return nil
}
