package class

import "strings"

// roberta is BERT with positions that begin behind the padding's row, and its own words.
var roberta = robertaOf("roberta", "Roberta", 50265)

// robertaOf is a class that transformers makes of RoBERTa's by another name.
// Source: transformers/models/roberta/modular_roberta.py, camembert/modular_camembert.py, xlm_roberta/modular_xlm_roberta.py.
func robertaOf(arch, name string, vocab int) Class {
	c := bert
	c.Arch, c.Type, c.prefix, c.Offset, c.Spec.Vocab = arch, arch, "roberta", 2, vocab
	c.Heads = nil
	for _, h := range bert.Heads {
		c.Heads = append(c.Heads, name+strings.TrimPrefix(h, "Bert"))
	}
	return c
}
