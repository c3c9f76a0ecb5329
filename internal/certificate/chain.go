package certificate

import (
	"math/bits"
	"slices"
)

// cost is what an option costs at a layer, in bytes and nanoseconds. save and saveFwd are kept from the layer's
// forward to its backward and to the end of forward; fwd and bwd are the most that its forward and backward need above
// the base and what the layers before it keep.
type cost struct {
	save, saveFwd, fwd, bwd, time int64
	holds                         uint32 // bit u: it holds shared tensor u
	// run and back are the times of the layer's forward and, without recomputation and transfers, its backward.
	run, back int64
}

// chain is the choice of one option for each layer under a budget, as plan.Certificate states it.
type chain struct {
	base, floor, budget        int64
	grads                      []int64  // by layer
	menu                       [][]cost // by layer, by option
	headFwd, headBwd, headGrad int64
	headTime                   int64   // of the head's forward and backward
	shared                     []int64 // bytes by shared tensor
	// x and y are alive outside the layers in forward and in backward, parameter gradients not counted.
	x, y int64
	// slack is the most by which forward rows overstate: tensors that forward frees unless some layer holds them, and
	// tensors that a block leaves to the next one.
	slack int64
	// slackBwd is the most by which the layers' backward rows overstate: shared tensors are counted to the end of the
	// backward that frees them.
	slackBwd int64
}

// relaxed is the chain with rows that overstate nothing.
func (c *chain) relaxed() *chain {
	if c.slack == 0 && c.slackBwd == 0 {
		return c
	}
	d := *c
	d.headFwd = max(0, c.headFwd-c.slack)
	d.menu = make([][]cost, len(c.menu))
	for i, menu := range c.menu {
		d.menu[i] = slices.Clone(menu)
		for k := range menu {
			d.menu[i][k].fwd = max(0, menu[k].fwd-c.slack)
			d.menu[i][k].bwd = max(0, menu[k].bwd-c.slackBwd)
		}
	}
	return &d
}

func (c *chain) room() int64 { return c.budget - c.base }

// later are the parameter gradients of the layers behind each layer, and of the head.
func (c *chain) later() []int64 {
	out := make([]int64, len(c.grads))
	sum := c.headGrad
	for i := len(out) - 1; i >= 0; i-- {
		out[i] = sum
		sum += c.grads[i]
	}
	return out
}

// alive is the size of a set of shared tensors.
func (c *chain) alive(set uint32) int64 {
	var n int64
	for ; set != 0; set &= set - 1 {
		n += c.shared[bits.TrailingZeros32(set)]
	}
	return n
}

// peak walks the rows for a choice and returns its peak and its time.
func (c *chain) peak(choice []int) (peak, time int64) {
	later := c.later()
	var kept, keptFwd, top int64
	var held uint32
	for i, k := range choice {
		o := &c.menu[i][k]
		held |= o.holds
		top = max(top, keptFwd+o.fwd, kept+c.alive(held)+o.bwd+later[i])
		kept += o.save
		keptFwd += o.saveFwd
		time += o.time
	}
	top = max(top, keptFwd+c.headFwd, kept+c.alive(held)+c.headBwd)
	return max(c.floor, c.base+top), time
}
