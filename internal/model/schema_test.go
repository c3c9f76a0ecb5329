package model

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"ckptplan/configs"
	"ckptplan/internal/document"
	"ckptplan/internal/model/class"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
)

var updateSchema = flag.Bool("update", false, "write configs/model.schema.json")

const schemaFile = "../../configs/model.schema.json"

func TestSchemaIsCurrent(t *testing.T) {
	want := schema(t)
	if *updateSchema {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale; run go test ./internal/model -run Schema -update\n%s", schemaFile, diff)
	}
}

// compiledSchema is the committed schema in an independent validator.
func compiledSchema(t *testing.T) *validator.Schema {
	t.Helper()
	src, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := validator.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	if err := c.AddResource("model.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("model.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPresetsMatchSchema(t *testing.T) {
	s := compiledSchema(t)
	for _, name := range presetNames() {
		src, err := configs.Models.ReadFile("models/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(asJSON(t, src)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the loader accepts, an editor must not underline, and the other way round.
func TestSchemaAgreesWithLoader(t *testing.T) {
	s := compiledSchema(t)
	for _, doc := range []string{
		minimal, minimal + "dropout: 0.1\n", minimal + "arch: llama\nbias: {mlp: true}\n", minimal + "arch: torch-encoder\nbias: false\n", minimal + "train: {lora: {r: 8}}\n", minimal + "sliding_window: -1\n",
		minimal + "hidden: 3\n", minimal + "vocab: 0\n", minimal + "dropout: 1.5\n", minimal + "attention: auto\n", minimal + "arch: mamba\n",
		minimal + "train: {optimizer: lion}\n", minimal + "train: {lora: {r: 0}}\n", "L: 1\nS: 2\nH: 4\nB: 1\nheads: 1\n",
		"L: 1\nS: 2\nH: 4\nB: 1\nheads: 1\nprecision: fp32\n",
	} {
		_, err := Load("x.yaml", []byte(doc))
		if verr := s.Validate(asJSON(t, []byte(doc))); (err == nil) != (verr == nil) {
			t.Errorf("loader says %v, schema says %v, of\n%s", err, verr, doc)
		}
	}
}

func asJSON(t *testing.T, src []byte) any {
	t.Helper()
	var doc any
	if err := yaml.Load(src, &doc); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	out, err := validator.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// schema is the JSON Schema of a spec document, for editors: configs/model.schema.json. It is generated
// from the Spec and the tables of the loader, here and not in the binary, which has no use for it.
func schema(t *testing.T) []byte {
	r := jsonschema.Reflector{ExpandedStruct: true, DoNotReference: true, RequiredFromJSONSchemaTags: true, Anonymous: true}
	s := r.Reflect(&spec.Spec{})
	s.Title = "ckptplan model"
	s.Description = "A model and the training step it is part of."
	s.Required = spec.Required

	word := func(path string) *jsonschema.Schema {
		p := s
		for key := range strings.SplitSeq(path, ".") {
			p, _ = p.Properties.Get(key)
		}
		return p
	}
	for i := range spec.Fields {
		describe(word(spec.Fields[i].Key), &spec.Fields[i])
	}
	word("arch").Enum = anySlice(class.Archs())
	// precision is another name of dtype; a document has one of them.
	s.Properties.Set("precision", word("dtype"))
	s.Required = spec.Required[:len(spec.Required)-1]
	s.OneOf = []*jsonschema.Schema{{Required: []string{"dtype"}}, {Required: []string{"precision"}}}
	// dropout: 0.1 and bias: true set all places.
	s.Properties.Set("dropout", &jsonschema.Schema{
		Description: "Drop probabilities by place; a number is embedding, attention and residual alike.",
		AnyOf:       []*jsonschema.Schema{probabilities(), word("dropout")},
	})
	s.Properties.Set("bias", &jsonschema.Schema{
		Description: "Projections with a bias vector; true or false is qkv, out, mlp and norm alike.",
		AnyOf:       []*jsonschema.Schema{{Type: "boolean"}, word("bias")},
	})
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// probabilities is a number in [0, 1).
func probabilities() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "number", Minimum: json.Number("0"), ExclusiveMaximum: json.Number("1")}
}

// describe puts what a row says of a key into its schema.
func describe(p *jsonschema.Schema, f *spec.Field) {
	p.Description = f.About
	switch f.Ptr(&spec.Spec{MoE: &spec.MoE{}, Image: &spec.Image{}, Train: spec.Train{LoRA: &spec.LoRA{}}}).(type) {
	case *int:
		p.Minimum = json.Number(strconv.Itoa(f.Low))
	case *float64:
		switch f.Span {
		case document.Probability:
			p.Minimum, p.ExclusiveMaximum = json.Number("0"), json.Number("1")
		case document.Share:
			p.ExclusiveMinimum, p.Maximum = json.Number("0"), json.Number("1")
		case document.Positive:
			p.ExclusiveMinimum = json.Number("0")
		}
	case *string, *dtype.Precision:
		if f.Enum != nil {
			p.Enum = anySlice(f.Enum)
		}
	case *[]string:
		if f.Enum != nil {
			p.Items = &jsonschema.Schema{Type: "string", Enum: anySlice(f.Enum)}
		}
	}
}

func anySlice(words []string) []any {
	out := make([]any, len(words))
	for i, w := range words {
		out[i] = w
	}
	return out
}
