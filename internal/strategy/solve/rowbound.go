package solve

import "math/big"

// BestBound is the better of two vectors of prices: the solver's, and those that a search on the problem itself finds. The
// solver's may be of another problem, with higher forward rows. Any prices bound every plan: shared tensors only add bytes.
func (p *Problem) BestBound(sol *Solution) Dual {
	best := rowBound(p, sol.Dual)
	c := newChain(p)
	if c.merge() || c.dropForward() {
		found, _ := dualSearch(c, sol.Time)
		if b := rowBound(p, c.dual(found[0])); b.Bound > best.Bound {
			best = b
		}
	}
	return best
}

// rowBound is the bound of a vector of prices on the rows as the certificate states them: forward and backward apart.
func rowBound(p *Problem, d Dual) Dual {
	n := len(p.Blocks)
	price := func(rows []int64, i int) *big.Int {
		if i < len(rows) {
			return big.NewInt(rows[i])
		}
		return new(big.Int)
	}
	room := p.Budget - p.Base
	head := Choice{}
	if len(p.Head) > 0 {
		head = p.Head[0]
	}
	sum, later := new(big.Int), p.HeadGrad
	after, afterFwd := price(d.Backward, n), price(d.Forward, n) // prices of the rows after the one at hand
	add := func(to *big.Int, price *big.Int, bytes int64) { to.Add(to, new(big.Int).Mul(price, big.NewInt(bytes))) }
	add(sum, big.NewInt(head.Time), tib)
	add(sum, after, head.Backward-room)
	add(sum, afterFwd, head.Forward-room)
	for i := n - 1; i >= 0; i-- {
		own, ownFwd := price(d.Backward, i), price(d.Forward, i)
		var least *big.Int
		for _, c := range p.Blocks[i].Choices {
			t := new(big.Int)
			add(t, big.NewInt(c.Time), tib)
			add(t, after, c.Save)
			add(t, afterFwd, c.Save+c.Linger)
			add(t, own, c.Backward+later-room)
			add(t, ownFwd, c.Forward-room)
			if least == nil || t.Cmp(least) < 0 {
				least = t
			}
		}
		sum.Add(sum, least)
		after.Add(after, own)
		afterFwd.Add(afterFwd, ownFwd)
		later += p.Blocks[i].Grad
	}
	d.Bound = 0
	if sum.Sign() > 0 { // times are not negative: a bound below 0 says nothing
		d.Bound = sum.Add(sum, big.NewInt(tib-1)).Rsh(sum, 40).Int64()
	}
	return d
}
