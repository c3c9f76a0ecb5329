package menu

import (
	"encoding/binary"
	"hash/fnv"

	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
)

// shortLayers is the length of the stack that stands for one of equal layers: a first, two inner ones with an inner
// neighbour on one side each, a last.
const shortLayers = 4

// short gives a program of a few layers whose prices are those of p's layers, and for each layer of p the layer of the
// short program that stands for it. Models with a stack whose inner layers differ, and short ones, are their own.
func short(p *memory.Program) (*memory.Program, []int, error) {
	g := p.Graph
	own := make([]int, g.Layers)
	for i := range own {
		own[i] = i
	}
	spec := build.SpecOf(g)
	s := *spec
	s.L = min(s.L, shortLayers)
	if g.Layers > spec.L {
		s.DecoderL = min(g.Layers-spec.L, shortLayers)
	}
	if len(s.LayerTypes) > s.L {
		s.LayerTypes = s.LayerTypes[:s.L]
	}
	q, err := model.Build(&s, build.Options{CPU: g.Step.CPU, Checkpoint: g.Step.Checkpoint})
	if err != nil {
		return nil, nil, err
	}
	if q.Layers == g.Layers {
		return p, own, nil
	}
	same := append(standIns(spec.L, 0), standIns(g.Layers-spec.L, s.L)...)
	for i, k := range same {
		if signature(g, i) != signature(q, k) {
			return p, own, nil
		}
	}
	return memory.Compile(q), same, nil
}

// standIns are, by layer of a stack, the layer of the short program that stands for it; that one's stack begins at first.
func standIns(layers, first int) []int {
	out := make([]int, layers)
	for i := range out {
		switch {
		case layers <= shortLayers:
			out[i] = first + i
		case i == layers-1:
			out[i] = first + shortLayers - 1
		default:
			out[i] = first + min(i, 1)
		}
	}
	return out
}

// signature is equal for layers with the same ops over tensors of the same shapes, dtypes and need of gradients, that read the
// same tensors from before the layers (masks).
func signature(g *graph.Graph, layer int) uint64 {
	span, _ := g.Span(layer, "layer")
	first := g.LayerBlock(0)
	begin := g.Blocks[first].First
	h := fnv.New64a()
	var buf [2 + 8*graph.MaxRank]byte
	for i := span.First; i < span.End; i++ {
		op := &g.Ops[i]
		_, _ = h.Write([]byte{byte(op.Kind), byte(op.Needs)})
		for _, t := range g.Inputs(op) { // tensors that all layers read, by identity
			if st := g.Tensors[t].Storage; g.Storages[st].Role != graph.Parameter && g.Storages[st].Born < begin && layer > 0 {
				_, _ = h.Write(binary.LittleEndian.AppendUint64(nil, uint64(st)))
			}
		}
		for _, t := range g.Outputs(op) {
			x := &g.Tensors[t]
			buf[0], buf[1] = byte(x.DType), byte(x.Shape.N)
			for k, d := range x.Shape.D {
				binary.LittleEndian.PutUint64(buf[2+8*k:], uint64(d))
			}
			_, _ = h.Write(buf[:])
		}
	}
	return h.Sum64()
}
