package host

import (
	"math"

	"ckptplan/internal/exec/random"
)

// keyBlock is how many keys the streaming kernel reads at once.
const keyBlock = 16

// scores is what both directions of the attention kernels share: softmax(scale·q·kᵀ + bias)·v without a tensor of
// scores. Query heads share key heads in groups. q is [B, a, S, D], k and v are [B, kv, Sk, D].
type scores struct {
	q, k, v, bias      []float32
	batch, heads, kv   int
	rows, keys, dq, dv int
	scale, drop        float64
	causal             bool
	random             random.Stream
	mask               []bool // of all probabilities; nil without dropout
}

func newScores(c *call, q, k, v view, bias []float32) *scores {
	return &scores{
		q: q.Reals(), k: k.Reals(), v: v.Reals(), bias: bias,
		batch: int(q.Shape.D[0]), heads: int(q.Shape.D[1]), kv: int(k.Shape.D[1]),
		rows: int(q.Shape.D[2]), keys: int(k.Shape.D[2]), dq: int(q.Shape.D[3]), dv: int(v.Shape.D[3]),
		scale: c.Scalar, drop: c.Drop, causal: c.Attr.B != 0,
	}
}

// row is query i of head h of sequence b; key and value j are of the head that h shares.
func (s *scores) row(b, h, i int) int    { return (b*s.heads+h)*s.rows + i }
func (s *scores) keyRow(b, h, j int) int { return (b*s.kv+h/(s.heads/s.kv))*s.keys + j }
func (s *scores) query(r int) []float32  { return s.q[r*s.dq : (r+1)*s.dq] }
func (s *scores) key(r int) []float32    { return s.k[r*s.dq : (r+1)*s.dq] }
func (s *scores) value(r int) []float32  { return s.v[r*s.dv : (r+1)*s.dv] }
func (s *scores) visible(i int) int      { return lastKey(s.causal, i, s.keys) }
func (s *scores) element(r, j int) int   { return r*s.keys + j }

// kept is 0 for a dropped probability and 1/(1−p) for a kept one.
func (s *scores) kept(r, j int) float64 {
	switch {
	case s.mask == nil:
		return 1
	case s.mask[s.element(r, j)]:
		return 1 / (1 - s.drop)
	}
	return 0
}

// from draws the mask from where the generator stands.
func (s *scores) from(r random.Stream) {
	s.random = r
	if s.drop > 0 {
		s.mask = r.Mask(s.batch*s.heads*s.rows*s.keys, s.drop)
	}
}

func (s *scores) score(r, kr, j int) float64 {
	x := s.scale * dot(s.query(r), s.key(kr))
	if s.bias != nil {
		x += float64(s.bias[s.element(r, j)])
	}
	return x
}

// lastKey is one past the last key that query i sees.
func lastKey(causal bool, i, keys int) int {
	if causal {
		return min(i+1, keys)
	}
	return keys
}

func dot(x, y []float32) float64 {
	s := 0.0
	for i, v := range x {
		s += float64(v) * float64(y[i])
	}
	return s
}

// forward streams over blocks of keys: a running maximum and sum rescale the result so far. It gives the context
// [B, a, S, D] and each row's logarithm of Σ exp(score).
// Source: Dao, "FlashAttention-2", algorithm 1.
func (s *scores) forward() (context, logsumexp []float32) {
	context = make([]float32, s.batch*s.heads*s.rows*s.dv)
	logsumexp = make([]float32, s.batch*s.heads*s.rows)
	acc := make([]float64, s.dv)
	var block [keyBlock]float64
	for b := range s.batch {
		for h := range s.heads {
			for i := range s.rows {
				r := s.row(b, h, i)
				clear(acc)
				top, total := math.Inf(-1), 0.0
				for j0, end := 0, s.visible(i); j0 < end; j0 += keyBlock {
					j1 := min(j0+keyBlock, end)
					was := top
					for j := j0; j < j1; j++ {
						block[j-j0] = s.score(r, s.keyRow(b, h, j), j)
						top = math.Max(top, block[j-j0])
					}
					shrink := math.Exp(was - top)
					total *= shrink
					for d := range acc {
						acc[d] *= shrink
					}
					for j := j0; j < j1; j++ {
						p := math.Exp(block[j-j0] - top)
						total += p
						p *= s.kept(r, j)
						for d, v := range s.value(s.keyRow(b, h, j)) {
							acc[d] += p * float64(v)
						}
					}
				}
				for d, v := range acc {
					context[r*s.dv+d] = float32(v / total)
				}
				logsumexp[r] = float32(top + math.Log(total))
			}
		}
	}
	return context, logsumexp
}

// attentionGrads are the gradients of q, k, v and of the bias, as contiguous values.
type attentionGrads struct{ q, k, v, bias []float32 }

// backward recomputes the probabilities from the rows' logsumexp: p = exp(score − lse), δ = Σ grad·context,
// dscore = p·(m·grad·v − δ), where m is 0 or 1/(1−drop).
func (s *scores) backward(grad, context, logsumexp []float32) attentionGrads {
	g := attentionGrads{
		q: make([]float32, len(s.q)), k: make([]float32, len(s.k)), v: make([]float32, len(s.v)), bias: make([]float32, len(s.bias)),
	}
	dk, dv := make([]float64, len(s.k)), make([]float64, len(s.v))
	dq := make([]float64, s.dq)
	for b := range s.batch {
		for h := range s.heads {
			for i := range s.rows {
				r := s.row(b, h, i)
				out := grad[r*s.dv : (r+1)*s.dv]
				delta := dot(out, context[r*s.dv:(r+1)*s.dv])
				clear(dq)
				for j := range s.visible(i) {
					kr := s.keyRow(b, h, j)
					p, m := math.Exp(s.score(r, kr, j)-float64(logsumexp[r])), s.kept(r, j)
					ds := p * (m*dot(out, s.value(kr)) - delta)
					if s.bias != nil {
						g.bias[s.element(r, j)] = float32(ds)
					}
					for d, x := range s.key(kr) {
						dq[d] += ds * s.scale * float64(x)
					}
					for d, x := range s.query(r) {
						dk[kr*s.dq+d] += ds * s.scale * float64(x)
					}
					for d, x := range out {
						dv[kr*s.dv+d] += p * m * float64(x)
					}
				}
				for d, x := range dq {
					g.q[r*s.dq+d] = float32(x)
				}
			}
		}
	}
	for i, x := range dk {
		g.k[i] = float32(x)
	}
	for i, x := range dv {
		g.v[i] = float32(x)
	}
	return g
}

// attention runs a forward kernel: context and logsumexp.
func attention(c *call) *scores {
	var bias []float32
	if len(c.in) > 3 {
		bias = c.in[3].Reals()
	}
	s := newScores(c, c.in[0], c.in[1], c.in[2], bias)
	s.from(c.random())
	context, lse := s.forward()
	c.out[0].SetReals(context)
	if c.out[1].Shape.D[2] > int64(s.rows) { // the efficient kernel pads rows to 32
		c.out[1].fill(0)
	}
	c.out[1].narrow(2, 0, int64(s.rows)).SetReals(lse)
	return s
}

// flashAttention and efficientAttention return the generator's state, from which backward draws the same mask.
func flashAttention(c *call) {
	s := attention(c)
	c.out[2].SetInts([]int64{int64(s.random.Key), int64(s.random.Offset)})
}

func efficientAttention(c *call) {
	s := attention(c)
	c.out[2].SetInts([]int64{int64(s.random.Key)})
	c.out[3].SetInts([]int64{int64(s.random.Offset)})
}

func flashAttentionBackward(c *call) {
	state := c.in[7].Ints()
	attentionBackward(c, state[0], state[1])
}

func efficientAttentionBackward(c *call) {
	attentionBackward(c, c.in[7].Ints()[0], c.in[8].Ints()[0])
}

// attentionBackward makes all gradients and stores those that are needed.
func attentionBackward(c *call, key, offset int64) {
	grad, q, k, v, bias, context, lse := c.in[0], c.in[1], c.in[2], c.in[3], c.in[4], c.in[5], c.in[6]
	var b []float32
	if bias.Ptr != 0 {
		b = bias.Reals()
	}
	s := newScores(c, q, k, v, b)
	s.from(random.Stream{Key: uint64(key), Offset: uint64(offset)})
	g := s.backward(grad.Reals(), context.Reals(), lse.narrow(2, 0, int64(s.rows)).Reals())
	for i, x := range [][]float32{g.q, g.k, g.v, g.bias} {
		if i < len(c.out) && c.out[i].Ptr != 0 {
			c.out[i].SetReals(x)
		}
	}
}
