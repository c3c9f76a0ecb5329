package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// maxDepth bounds the nesting of a config.json.
const maxDepth = 64

// Json parses a JSON object into the node tree that YAML documents have, so that one reader serves both. It returns
// nil after reporting what is wrong.
func (r *Source) Json(src []byte) *yaml.Node {
	p := &jsonParser{src: src, dec: json.NewDecoder(bytes.NewReader(src))}
	var whole json.RawMessage
	err := json.Unmarshal(src, &whole) // every syntax error, with its offset
	var root *yaml.Node
	if err == nil {
		p.dec.UseNumber()
		root, err = p.value(0)
	}
	if err == nil {
		r.twice(root)
		if r.hidden(root) {
			return nil
		}
	}
	if err != nil {
		at := p.skip()
		var se *json.SyntaxError
		if errors.As(err, &se) {
			at = max(0, int(se.Offset)-1)
		}
		line, col := p.place(at)
		r.Line(line, col, "not JSON: %s", strings.TrimPrefix(err.Error(), "json: "))
		return nil
	}
	if root.Kind != yaml.MappingNode {
		r.At(root, "a config.json is an object such as {\"model_type\": \"llama\", …}, not %s", KindOf(root))
		return nil
	}
	return root
}

type jsonParser struct {
	src       []byte
	dec       *json.Decoder
	at        int // offset up to which line and start are counted
	line      int // lines before at
	lineStart int
}

// skip is the offset of the next token.
func (p *jsonParser) skip() int {
	i := int(p.dec.InputOffset())
	for i < len(p.src) && bytes.IndexByte([]byte(" \t\r\n,:"), p.src[i]) >= 0 {
		i++
	}
	return i
}

// place is the line and column (in characters) of an offset. Offsets mostly grow, so the count goes on from the last.
func (p *jsonParser) place(offset int) (line, col int) {
	offset = min(offset, len(p.src))
	if offset < p.at {
		p.at, p.line, p.lineStart = 0, 0, 0
	}
	for ; p.at < offset; p.at++ {
		if p.src[p.at] == '\n' {
			p.line++
			p.lineStart = p.at + 1
		}
	}
	return p.line + 1, utf8.RuneCount(p.src[p.lineStart:offset]) + 1
}

func (p *jsonParser) node(kind yaml.Kind, tag, value string, at int) *yaml.Node {
	line, col := p.place(at)
	return &yaml.Node{Kind: kind, Tag: tag, Value: value, Line: line, Column: col}
}

func (p *jsonParser) value(depth int) (*yaml.Node, error) {
	at := p.skip()
	tok, err := p.dec.Token()
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	switch v := tok.(type) {
	case json.Delim:
		if depth > maxDepth {
			return nil, fmt.Errorf("nested deeper than %d", maxDepth)
		}
		kind := yaml.SequenceNode
		if v == '{' {
			kind = yaml.MappingNode
		}
		n := p.node(kind, "", "", at)
		for p.dec.More() {
			child, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		_, err := p.dec.Token() // the closing bracket
		return n, err
	case string:
		return p.node(yaml.ScalarNode, "!!str", v, at), nil
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(v.String(), ".eE") {
			tag = "!!float"
		}
		return p.node(yaml.ScalarNode, tag, v.String(), at), nil
	case bool:
		return p.node(yaml.ScalarNode, "!!bool", fmt.Sprint(v), at), nil
	}
	return p.node(yaml.ScalarNode, "!!null", "", at), nil
}

// twice reports the keys that a JSON object has twice, which readers of JSON take differently.
func (r *Source) twice(n *yaml.Node) {
	first := map[string]int{}
	for i, e := range n.Content {
		r.twice(e)
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			continue
		}
		if line, dup := first[e.Value]; dup {
			r.At(e, "%s is given twice (first in line %d)", e.Value, line)
			continue
		}
		first[e.Value] = e.Line
	}
}
