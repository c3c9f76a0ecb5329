package document

import "go.yaml.in/yaml/v4"

// Setting is one key of a flat document, such as a config file, and its value.
type Setting struct {
	Key string
	// List and Map say that the value is no single one.
	List, Map bool

	key, value *yaml.Node
}

// Settings are the keys of a flat document in its order. A document that is no map is reported; form is an example of one.
func (d *Document) Settings(form string) []Setting {
	if d.Root.Kind != yaml.MappingNode {
		d.At(d.Root, "a %s file is a map such as %s, not %s", d.R.noun, form, KindOf(d.Root))
		return nil
	}
	var out []Setting
	for i := 0; i+1 < len(d.Root.Content); i += 2 {
		k, v := d.Root.Content[i], Resolve(d.Root.Content[i+1])
		if k.Kind != yaml.ScalarNode {
			d.At(k, "a key is a word, not %s", KindOf(k))
			continue
		}
		out = append(out, Setting{Key: k.Value, List: v.Kind == yaml.SequenceNode, Map: v.Kind == yaml.MappingNode, key: k, value: v})
	}
	return out
}

// WrongKey reports the key of a setting, WrongValue its value.
func (d *Document) WrongKey(s Setting, format string, args ...any) { d.At(s.key, format, args...) }

// WrongValue reports the value of a setting.
func (d *Document) WrongValue(s Setting, format string, args ...any) { d.At(s.value, format, args...) }

// Line is where the setting stands.
func (s Setting) Line() int { return s.key.Line }
