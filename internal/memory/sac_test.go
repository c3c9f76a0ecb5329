package memory

import (
	"encoding/json"
	"slices"
	"testing"

	"ckptplan/internal/groundtruth"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/plan"
)

// selectiveCases were measured with PyTorch 2.14.1: every layer under torch.utils.checkpoint with
// create_selective_checkpoint_contexts and a policy that saves the named ops' outputs (tools/measure.py on meta).
var selectiveCases = []struct {
	name, config                      string
	precision, attention, optimizer   string
	cache                             []graph.Work
	beforeBackward, forward, backward int64
}{
	{"llama attention", tinyLlama, "bf16", "sdpa", "adamw", attentionOps, 502572, 515644, 653844},
	{"llama mm", tinyLlama, "bf16", "sdpa", "adamw", matmulOps, 550652, 563724, 657940},
	{"llama both", tinyLlama, "bf16", "sdpa", "adamw", append(matmulOps, attentionOps...), 559916, 572988, 657940},
	{"gpt2 mm", tinyGPT2, "bf16", "eager", "sgd", matmulOps, 351112, 390784, 541576},
}

var (
	attentionOps = []graph.Work{graph.Attention}
	matmulOps    = []graph.Work{graph.MatMul}
)

const (
	tinyLlama = `{"model_type":"llama","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":96,"vocab_size":100}`
	tinyGPT2  = `{"model_type":"gpt2","n_layer":2,"n_embd":64,"n_head":4,"vocab_size":100,"n_positions":64}`
)

func TestSelectiveCheckpoint(t *testing.T) {
	for _, c := range selectiveCases {
		t.Run(c.name, func(t *testing.T) {
			m := groundtruth.Case{ID: c.name, Config: json.RawMessage(c.config), Batch: 2, Seq: 16, Precision: c.precision, Attention: c.attention, Strategy: "full", Optimizer: c.optimizer}
			var head struct {
				ModelType string `json:"model_type"`
			}
			_ = json.Unmarshal(m.Config, &head)
			m.ModelType = head.ModelType
			s, err := m.Spec()
			if err != nil {
				t.Fatal(err)
			}
			g, err := model.Build(s, build.Options{})
			if err != nil {
				t.Fatal(err)
			}
			layer, _ := g.Span(1, "layer")
			var cache []string
			for i, name := range g.Labels(layer.First, layer.End) {
				if slices.Contains(c.cache, g.Ops[int(layer.First)+i].Row().Work) {
					cache = append(cache, name)
				}
			}
			if len(cache) == 0 {
				t.Skip("this layer has no such op")
			}
			o := plan.Option{Regions: []plan.Region{{Span: "layer", Cache: cache}}}
			tl, err := Judge(Compile(g), &plan.Plan{Nodes: []plan.Node{{First: 0, Last: 1, Option: &o}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			r := &tl.Second
			for _, x := range [][2]int64{{r.BeforeBackward, c.beforeBackward}, {r.Peak[Forward].Bytes, c.forward}, {r.Peak[Backward].Bytes, c.backward}} {
				if x[0] != x[1] {
					t.Errorf("simulated %d, measured %d", x[0], x[1])
				}
			}
		})
	}
}
