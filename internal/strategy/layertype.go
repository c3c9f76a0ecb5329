package strategy

import (
	"hash/fnv"

	"ckptplan/internal/memory"
	"ckptplan/internal/model"
)

// shortLayers is the length of the chain that stands for one of equal layers: a first, two inner ones with an inner
// neighbour on one side each, a last.
const shortLayers = 4

// short gives a program of a few layers whose prices are those of p's layers, and for each layer of p the layer of the
// short program that stands for it. Chains whose inner layers differ, and short ones, are their own.
func short(p *memory.Program) (*memory.Program, []int, error) {
	g := p.Graph
	same := make([]int, g.Layers)
	for i := range same {
		same[i] = i
	}
	if g.Layers <= shortLayers {
		return p, same, nil
	}
	want := signature(g, 1)
	for i := 2; i < g.Layers; i++ {
		if signature(g, i) != want {
			return p, same, nil
		}
	}
	s := *g.Spec
	s.L = shortLayers
	if len(s.LayerTypes) > shortLayers {
		s.LayerTypes = s.LayerTypes[:shortLayers]
	}
	q, err := s.Build()
	if err != nil {
		return nil, nil, err
	}
	if signature(q, 1) != want || signature(q, 0) != signature(g, 0) {
		return p, same, nil
	}
	for i := range same {
		switch i {
		case 0:
		case g.Layers - 1:
			same[i] = shortLayers - 1
		default:
			same[i] = 1
		}
	}
	return memory.Compile(q), same, nil
}

// signature is equal for layers with the same ops over tensors of the same shapes, dtypes and need of gradients, that read the
// same tensors from before the layers (masks).
func signature(g *model.Graph, layer int) uint64 {
	span, _ := g.Span(layer, "layer")
	first, _ := layerBlocks(g)
	begin := g.Blocks[first].First
	h := fnv.New64a()
	var buf [2 + model.MaxRank]byte
	for i := span.First; i < span.End; i++ {
		op := &g.Ops[i]
		_, _ = h.Write([]byte{byte(op.Kind), byte(op.Needs)})
		for _, t := range g.Inputs(op) { // tensors that all layers read, by identity
			if st := g.Tensors[t].Storage; g.Storages[st].Role != model.Parameter && g.Storages[st].Born < begin && layer > 0 {
				_, _ = h.Write([]byte{byte(st), byte(st >> 8)})
			}
		}
		for _, t := range g.Outputs(op) {
			x := &g.Tensors[t]
			buf[0], buf[1] = byte(x.DType), byte(x.Shape.N)
			for k, d := range x.Shape.D {
				buf[2+k] = byte(d) ^ byte(d>>8)*31 ^ byte(d>>16)*17
			}
			_, _ = h.Write(buf[:])
		}
	}
	return h.Sum64()
}
