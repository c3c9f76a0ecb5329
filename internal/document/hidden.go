package document

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// reorders is true for a character that changes the direction of the text around it, so that a reader sees another text than
// the program. Source: Unicode 16, property Bidi_Control.
func reorders(r rune) bool {
	return r == 0x061c || r == 0x200e || r == 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// hidden reports such characters in the keys and values of a document, as text or escaped.
func (r *Source) hidden(root *yaml.Node) bool {
	before := len(r.Diags)
	for _, n := range root.Content {
		r.hidden(n)
	}
	if i := strings.IndexFunc(root.Value, reorders); i >= 0 && root.Kind == yaml.ScalarNode {
		c, _ := utf8.DecodeRuneInString(root.Value[i:])
		r.At(root, "the character U+%04X changes the direction of the text around it: remove it", c)
	}
	return len(r.Diags) > before
}
