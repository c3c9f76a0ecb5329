package strategy

import (
	"context"
	"errors"
	"slices"

	"ckptplan/internal/model"
)

// The choices of head and loss that a user may allow.
const (
	DropLogits  = "drop-logits"  // the caller lets go of the model's output before backward
	ChunkedLoss = "chunked-loss" // head and loss over parts of the tokens, each recomputed
)

// HeadChoices are all of them.
var HeadChoices = []string{DropLogits, ChunkedLoss}

// lossChunks are the numbers of parts that are tried: more parts hold fewer logits at a time, and run more kernels.
var lossChunks = []int{2, 4, 8, 16, 32}

// Heads is the head's menu: the spec as it is, and what the user allows beside it.
func Heads(s *model.Spec, allowed []string) []*model.Spec {
	out := []*model.Spec{s}
	if slices.Contains(allowed, DropLogits) && s.Train.KeepLogits {
		t := *s
		t.Train.KeepLogits = false
		out = append(out, &t)
	}
	if slices.Contains(allowed, ChunkedLoss) && s.Chunkable() {
		for _, n := range lossChunks {
			if n > s.Train.LossChunks && n <= s.B*s.S {
				t := *s
				t.Train.LossChunks = n
				out = append(out, &t)
			}
		}
	}
	return out
}

// ChooseHead solves the request for every allowed head and gives the spec of the fastest plan; of equals the first,
// which changes least. If nothing fits, it is the one that needs the smallest budget.
func ChooseHead(ctx context.Context, s *model.Spec, req Request, allowed []string) (*model.Spec, error) {
	best, leanest := (*model.Spec)(nil), s
	var step, smallest int64
	for _, h := range Heads(s, allowed) {
		p, err := programOf(h)
		if err != nil {
			return nil, err
		}
		res, err := Optimize(ctx, p, req)
		var no *NoPlanError
		switch {
		case errors.As(err, &no):
			if smallest == 0 || int64(no.Smallest) < smallest {
				leanest, smallest = h, int64(no.Smallest)
			}
		case err != nil:
			return nil, err
		case best == nil || res.Timeline.Times.Step() < step:
			best, step = h, res.Timeline.Times.Step()
		}
	}
	if best == nil {
		return leanest, nil
	}
	return best, nil
}
