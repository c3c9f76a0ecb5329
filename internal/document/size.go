package document

import "go.yaml.in/yaml/v4"

const (
	// maxNodes bounds what a document holds once its aliases are written out: a few lines can stand for billions.
	maxNodes = 1 << 20
	// maxNesting bounds how deep maps and lists stand in each other.
	maxNesting = 1000
)

// unbounded reports a document that its readers could not walk: an alias inside its own anchor, or aliases and nesting
// that stand for far more than any file of ckptplan holds.
func (r *Source) unbounded(root *yaml.Node) bool {
	w := walk{r: r, done: map[*yaml.Node]extent{}, open: map[*yaml.Node]bool{}}
	w.of(root, root)
	return w.refused
}

// extent is what a node stands for: how many nodes, how deep.
type extent struct{ nodes, depth int }

// walk sizes the nodes of a document, each once.
type walk struct {
	r       *Source
	done    map[*yaml.Node]extent
	open    map[*yaml.Node]bool // around the node that is being sized
	refused bool
}

// of sizes a node. What is wrong is reported at the node that leads to it.
func (w *walk) of(n, at *yaml.Node) extent {
	if e, ok := w.done[n]; ok || w.refused {
		return e
	}
	e := extent{nodes: 1}
	if w.open[n] {
		w.refuse(at, "an alias stands inside its own anchor: it would never end")
		return e
	}
	w.open[n] = true
	inner := n.Content
	if n.Kind == yaml.AliasNode {
		inner = []*yaml.Node{n.Alias}
	}
	for _, c := range inner {
		x := w.of(c, n)
		e.nodes += x.nodes
		e.depth = max(e.depth, x.depth+1)
		switch {
		case w.refused:
			return e
		case e.nodes > maxNodes:
			w.refuse(n, "aliases stand for more than %d values", maxNodes)
		case e.depth > maxNesting:
			w.refuse(n, "nested more than %d deep", maxNesting)
		}
	}
	w.open[n] = false
	w.done[n] = e
	return e
}

func (w *walk) refuse(n *yaml.Node, format string, args ...any) {
	w.refused = true
	w.r.At(n, format, args...)
}
