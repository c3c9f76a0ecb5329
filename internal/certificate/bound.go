package certificate

import (
	"fmt"
	"math/big"
	"strconv"

	"ckptplan/internal/plan"
)

// tib is the unit of multipliers: nanoseconds per 2^40 bytes.
const tib = 1 << 40

// bound adds up the Lagrangian bound of plan.CertifiedBound in rational arithmetic and rounds it up to whole nanoseconds:
// times are whole, so the next whole number is also a bound. Extra times are not negative, so it is at least 0. Shared tensors are left out; they only add bytes.
func (c *chain) bound(rows []plan.PricedRow) (int64, error) {
	n := len(c.menu)
	lambda := map[string][]*big.Rat{"backward": make([]*big.Rat, n+1), "forward": make([]*big.Rat, n+1)}
	for _, prices := range lambda {
		for i := range prices {
			prices[i] = new(big.Rat)
		}
	}
	for _, r := range rows {
		i, err := strconv.Atoi(r.Row)
		if r.Row == "head" {
			i, err = n, nil
		}
		if err != nil || i < 0 || i > n || lambda[r.Phase] == nil {
			return 0, fmt.Errorf("there is no %s row %q", r.Phase, r.Row)
		}
		if r.Lambda < 0 {
			return 0, fmt.Errorf("the multiplier of %s row %s is negative", r.Phase, r.Row)
		}
		lambda[r.Phase][i].Add(lambda[r.Phase][i], big.NewRat(r.Lambda, tib))
	}
	// paid[i] is the cost of a byte that is alive on all rows from i on.
	paid := func(prices []*big.Rat) []*big.Rat {
		out := make([]*big.Rat, n+2)
		out[n+1] = new(big.Rat)
		for i := n; i >= 0; i-- {
			out[i] = new(big.Rat).Add(out[i+1], prices[i])
		}
		return out
	}
	back, front := paid(lambda["backward"]), paid(lambda["forward"])
	times := func(multiplier *big.Rat, bytes int64) *big.Rat {
		return new(big.Rat).Mul(multiplier, new(big.Rat).SetInt64(bytes))
	}
	sum := times(lambda["backward"][n], c.headBwd-c.room())
	sum.Add(sum, times(lambda["forward"][n], c.headFwd-c.room()))
	later := c.later()
	for i, menu := range c.menu {
		var least *big.Rat
		for k := range menu {
			o := &menu[k]
			t := new(big.Rat).SetInt64(o.time)
			t.Add(t, times(back[i+1], o.save))
			t.Add(t, times(front[i+1], o.saveFwd))
			t.Add(t, times(lambda["backward"][i], o.bwd+later[i]-c.room()))
			t.Add(t, times(lambda["forward"][i], o.fwd-c.room()))
			if least == nil || t.Cmp(least) < 0 {
				least = t
			}
		}
		sum.Add(sum, least)
	}
	if sum.Sign() <= 0 {
		return 0, nil
	}
	whole := new(big.Int).Sub(sum.Denom(), big.NewInt(1))
	whole.Add(whole, sum.Num()).Quo(whole, sum.Denom())
	if !whole.IsInt64() {
		return 0, fmt.Errorf("it is not a number of nanoseconds")
	}
	return whole.Int64(), nil
}
