package certificate

import (
	"fmt"

	"ckptplan/internal/plan"
)

// claimed expands a certificate's menu into a chain. It is an error if a layer lacks an option or has one twice. holders
// say which options hold each shared tensor, by layer.
func claimed(c *plan.Certificate, layers int) (_ *chain, options []plan.Option, holders [][][]bool, err error) {
	m := c.Menu
	out := &chain{
		base: int64(m.Base), floor: int64(m.Floor), budget: int64(c.TensorBudget), grads: make([]int64, layers), menu: make([][]cost, layers),
		slack: int64(m.Slack), slackBwd: int64(m.SlackBackward), headFwd: int64(m.Head.Forward), headBwd: int64(m.Head.Backward), headGrad: int64(m.Head.Gradient),
	}
	var runs []string
	for _, g := range m.Gradients {
		runs = append(runs, g.Layers)
	}
	if err := covered("menu.gradients", runs, layers, func(r, l int) { out.grads[l] = m.Gradients[r].Bytes }); err != nil {
		return nil, nil, nil, err
	}
	number := map[string]int{}
	for k := range m.Options {
		o := &m.Options[k]
		if _, twice := number[o.Option.Name]; twice {
			return nil, nil, nil, fmt.Errorf("menu.options: %s is listed twice", o.Option.Name)
		}
		number[o.Option.Name] = k
		options = append(options, o.Option)
		runs = runs[:0]
		for _, r := range o.Rows {
			runs = append(runs, r.Layers)
		}
		err := covered("menu.options "+o.Option.Name, runs, layers, func(r, l int) {
			x := &o.Rows[r]
			out.menu[l] = append(out.menu[l], cost{save: x.Save, saveFwd: x.SaveForward, fwd: x.Forward, bwd: x.Backward, time: x.Time})
		})
		if err != nil {
			return nil, nil, nil, err
		}
	}
	for _, s := range m.Shared {
		h := table(layers, len(options))
		for _, x := range s.Held {
			k, ok := number[x.Option]
			ls, err := plan.ParseLayers(x.Layers, layers)
			if err != nil || !ok {
				return nil, nil, nil, fmt.Errorf("menu.shared: option %q at layers %q is not in the menu", x.Option, x.Layers)
			}
			for _, l := range ls {
				h[l][k] = true
			}
		}
		holders = append(holders, h)
		out.shared = append(out.shared, int64(s.Bytes))
	}
	return out, options, holders, nil
}

// covered visits the layers of rows that name them as runs. Every layer must be in one row, and in one alone.
func covered(what string, runs []string, layers int, visit func(run, layer int)) error {
	seen := make([]bool, layers)
	n := 0
	for r, text := range runs {
		ls, err := plan.ParseLayers(text, layers)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		for _, l := range ls {
			if seen[l] {
				return fmt.Errorf("%s: layer %d is listed twice", what, l)
			}
			seen[l] = true
			n++
			visit(r, l)
		}
	}
	if n != layers {
		return fmt.Errorf("%s: %d of %d layers are listed", what, n, layers)
	}
	return nil
}
