package class

import (
	"reflect"
	"slices"
	"strings"

	"ckptplan/internal/model/spec"
	"ckptplan/internal/nearest"
)

// sizeNames are the keys of a spec that make a model as large as it is. A config.json has to say them: what the
// configuration class of transformers would fill in is another model than the one that is meant.
var sizeNames = []string{
	"L", "H", "heads", "kv_heads", "head_dim", "ffn", "vocab", "max_positions", "embedding_dim", "decoder_L",
	"moe.experts", "moe.top_k", "moe.ffn", "image.size", "image.patch",
}

// Sizes are the class's own names in a config.json of its sizes, by their keys in a spec. Of several names of one size the
// last in the table is the field of the configuration class.
func (c *Class) Sizes() map[string]string {
	names := map[string]string{}
	for _, k := range c.Keys {
		if slices.Contains(sizeNames, k.Spec) {
			names[k.Spec] = k.Name
		}
	}
	return names
}

// Missing are the sizes that a config.json leaves to the class, which has a number of its own for each, in the class's words.
// A size that follows from others (one key head a query head, a width of 4H) may be left out.
func (c *Class) Missing(config *Config) []string {
	var absent []string
	names := c.Sizes()
	for _, key := range sizeNames {
		f := spec.FieldOf(key)
		switch {
		case names[key] == "" || config.Bad[key] || slices.ContainsFunc(c.Keys, func(k hfKey) bool { return k.Spec == key && config.Get(k.Name) != nil }):
		case key == "decoder_L" && config.Get("num_layers") != nil:
		case key == "max_positions" && c.Spec.Positions != "learned": // no parameter has this size
		case spec.HasSection(&c.Spec, f) && !reflect.ValueOf(f.Ptr(&c.Spec)).Elem().IsZero():
			absent = append(absent, names[key])
		}
	}
	return absent
}

// Meant is the class's own name of the size that a key of a config.json stands for, and the size's key in a spec: another
// class's name (n_layer, num_layers), or a misspelt one. Both are empty for any other key.
func (c *Class) Meant(name string, config *Config) (own, key string) {
	if slices.ContainsFunc(c.Keys, func(k hfKey) bool { return k.Name == name }) {
		return "", ""
	}
	names := c.Sizes()
	if key = sizeOf(name); names[key] != "" {
		return names[key], key
	}
	for _, key := range sizeNames {
		if own := names[key]; own != "" && !config.Given(key) && nearest.Edits(nearest.Fold(name), nearest.Fold(own)) <= misspelt {
			return own, key
		}
	}
	return "", ""
}

// misspelt is how many letters of a size's name may be wrong. More would take other keys for sizes: a config.json has many
// that do not change the model.
const misspelt = 2

// sizeOf is the size that a name of any class or trainer stands for, or "".
func sizeOf(name string) string {
	if key := spec.Aliases[strings.ToLower(name)]; slices.Contains(sizeNames, key) {
		return key
	}
	for _, c := range Classes {
		for _, k := range c.Keys {
			if k.Name == name && slices.Contains(sizeNames, k.Spec) {
				return k.Spec
			}
		}
	}
	return ""
}
