package study

import (
	"fmt"

	"ckptplan/internal/model"
	"ckptplan/internal/unit"
)

// gradientsFreed says when the simulated step frees its gradients, and which loops peak higher.
const gradientsFreed = "gradients are counted as freed before forward; a loop that calls zero_grad() right before backward, or PyTorch before 2.0, peaks at up to "

// heldGradients simulates a plan for a loop whose gradients are there during the forward pass: zero_grad() that fills them
// with zeros (PyTorch's default before 2.0, pull request 92731) peaks as the second of two micro batches does, to the
// byte (cases with "zero_grad" in testdata/ground-truth); one called between forward and backward peaks in between. It
// is 0 if that changes nothing, or if gradients stay between micro batches anyway.
func (e *Estimation) heldGradients(p *Simulation) (unit.Bytes, error) {
	if e.study.Spec.Train.GradAccum > 1 || p.Timeline.Gradients == 0 {
		return 0, nil
	}
	two := 2
	study, err := e.study.Vary(model.Overrides{GradAccum: &two})
	if err != nil {
		return 0, err
	}
	other, err := study.Simulate(p.Choice)
	if err != nil {
		return 0, err
	}
	if other.Timeline.Peak.Bytes <= p.Timeline.Peak.Bytes {
		return 0, nil
	}
	return unit.Bytes(other.Timeline.Peak.Bytes), nil
}

// gradientMistake warns of a verdict that is worse where gradients are kept, which adds at most their bytes.
func (e *Estimation) gradientMistake() ([]string, error) {
	p, v := e.best(), e.Best().Verdict
	if v == nil || *v == OOM || e.study.fit(p.Timeline.Peak.Bytes+int64(p.Timeline.Gradients)).Verdict == *v {
		return nil, nil
	}
	held, err := e.heldGradients(p)
	if err != nil || held == 0 {
		return nil, err
	}
	kept := e.study.fit(int64(held)).Verdict
	if kept == *v {
		return nil, nil
	}
	words := map[Verdict]string{Tight: "is tight", OOM: "does not fit"}[kept]
	return []string{fmt.Sprintf("%s%s, which %s", gradientsFreed, held.Both(), words)}, nil
}
