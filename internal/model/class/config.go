package class

import (
	"strconv"

	"go.yaml.in/yaml/v4"

	"ckptplan/internal/model/spec"
)

// Config is a config.json being read: a reader whose keys are translated by the class's table.
type Config struct {
	*spec.Reader
	Root *yaml.Node
}

// Get is the value of a key, or nil if it is missing or null.
func (c *Config) Get(name string) *yaml.Node {
	if v := c.raw(name); v != nil && v.Tag != "!!null" {
		return v
	}
	return nil
}

// when is true for a key with that value, which then decides a key of the spec.
func (c *Config) when(name, value, spec string) bool {
	v := c.Get(name)
	if v == nil || v.Value != value {
		return false
	}
	c.Spec[spec] = v
	return true
}

// Null is true for a key that is there with the value null.
func (c *Config) Null(name string) bool {
	v := c.raw(name)
	return v != nil && v.Tag == "!!null"
}

// raw is the value of a key; of a key given twice the last, as Python's json has it.
func (c *Config) raw(name string) *yaml.Node {
	for i := len(c.Root.Content) - 2; i >= 0; i -= 2 {
		if c.Root.Content[i].Value == name {
			return c.Root.Content[i+1]
		}
	}
	return nil
}

// Architectures are the names of the classes that the checkpoint was saved from.
func (c *Config) Architectures() []*yaml.Node {
	if a := c.Get("architectures"); a != nil && a.Kind == yaml.SequenceNode {
		return a.Content
	}
	return nil
}

// SameScalar is true for a scalar that is written so, or is the same number.
func SameScalar(v *yaml.Node, want string) bool {
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

// Rotary is partial_rotary_factor where old and new configs have it.
func (c *Config) Rotary() *yaml.Node {
	if v := c.Rope("partial_rotary_factor"); v != nil {
		return v
	}
	return c.Get("partial_rotary_factor")
}

// Rope is a key of the rotary parameters, or nil.
func (c *Config) Rope(name string) *yaml.Node {
	for _, in := range []string{"rope_parameters", "rope_scaling"} {
		if m := c.Get(in); m != nil && m.Kind == yaml.MappingNode {
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
func (c *Config) labels(s *spec.Spec) {
	if v := c.Get("num_labels"); v != nil {
		if !c.Given("labels") {
			c.Spec["labels"] = v
			c.Value(s, spec.FieldOf("labels"), v)
		}
	} else if v := c.Get("id2label"); v != nil && v.Kind == yaml.MappingNode && len(v.Content) > 0 {
		s.Labels = len(v.Content) / 2
		c.Spec["labels"] = v
	}
}
