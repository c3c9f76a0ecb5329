package model

import (
	"strconv"

	"go.yaml.in/yaml/v4"
)

// config is a config.json being read: a reader whose keys are translated by the class's table.
type config struct {
	*reader
	root *yaml.Node
}

// get is the value of a key, or nil if it is missing or null.
func (c *config) get(name string) *yaml.Node {
	if v := c.raw(name); v != nil && v.Tag != "!!null" {
		return v
	}
	return nil
}

// when is true for a key with that value, which then decides a key of the spec.
func (c *config) when(name, value, spec string) bool {
	v := c.get(name)
	if v == nil || v.Value != value {
		return false
	}
	c.spec[spec] = v
	return true
}

// null is true for a key that is there with the value null.
func (c *config) null(name string) bool {
	v := c.raw(name)
	return v != nil && v.Tag == "!!null"
}

// raw is the value of a key; of a key given twice the last, as Python's json has it.
func (c *config) raw(name string) *yaml.Node {
	for i := len(c.root.Content) - 2; i >= 0; i -= 2 {
		if c.root.Content[i].Value == name {
			return c.root.Content[i+1]
		}
	}
	return nil
}

// architectures are the names of the classes that the checkpoint was saved from.
func (c *config) architectures() []*yaml.Node {
	if a := c.get("architectures"); a != nil && a.Kind == yaml.SequenceNode {
		return a.Content
	}
	return nil
}

func sameScalar(v *yaml.Node, want string) bool {
	if v.Kind != yaml.ScalarNode {
		return false
	}
	if v.Value == want {
		return true
	}
	a, errA := strconv.ParseFloat(v.Value, 64)
	b, errB := strconv.ParseFloat(want, 64)
	return errA == nil && errB == nil && a == b
}

// rotary is partial_rotary_factor where old and new configs have it.
func (c *config) rotary() *yaml.Node {
	if v := c.rope("partial_rotary_factor"); v != nil {
		return v
	}
	return c.get("partial_rotary_factor")
}

// rope is a key of the rotary parameters, or nil.
func (c *config) rope(name string) *yaml.Node {
	for _, in := range []string{"rope_parameters", "rope_scaling"} {
		if m := c.get(in); m != nil && m.Kind == yaml.MappingNode {
			for i := 0; i+1 < len(m.Content); i += 2 {
				if v := m.Content[i+1]; m.Content[i].Value == name && v.Tag != "!!null" {
					return v
				}
			}
		}
	}
	return nil
}

// labels counts a classifier's classes: num_labels, else the names in id2label.
func (c *config) labels(s *Spec) {
	if v := c.get("num_labels"); v != nil {
		if !c.given("labels") {
			c.spec["labels"] = v
			c.value(s, fieldOf("labels"), v)
		}
	} else if v := c.get("id2label"); v != nil && v.Kind == yaml.MappingNode && len(v.Content) > 0 {
		s.Labels = len(v.Content) / 2
		c.spec["labels"] = v
	}
}
