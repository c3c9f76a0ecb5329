package interpreter

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	osexec "os/exec"
	"strings"
	"testing"

	"ckptplan/internal/memory"
	"ckptplan/internal/model"
	"ckptplan/internal/model/build"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/graph"
	"ckptplan/internal/model/spec"
)

// jsonTensor is a tensor as host_values.py reads it.
type jsonTensor struct {
	Type  string  `json:"type"`
	Shape []int64 `json:"shape"`
	Data  string  `json:"data"`
}

func toJSON(t tensor) jsonTensor {
	j := jsonTensor{Type: "<f4", Shape: t.Shape.D[:t.Shape.N]}
	var raw []byte
	if t.DType == dtype.I64 {
		j.Type = "<i8"
		raw = t.rowMajor()
	} else {
		for _, v := range t.reals() {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
		}
	}
	j.Data = base64.StdEncoding.EncodeToString(raw)
	return j
}

// torchValuesJob is what host_values.py runs.
type torchValuesJob struct {
	Config    json.RawMessage       `json:"config"`
	Attention string                `json:"attention"`
	Weights   map[string]jsonTensor `json:"weights"`
	Inputs    map[string]jsonTensor `json:"inputs"`
}

type torchValues struct {
	Error     string            `json:"error"`
	Loss      float64           `json:"loss"`
	Gradients map[string]string `json:"gradients"`
}

// torchConfigs are Hugging Face configs of small models without dropout.
var torchConfigs = []struct{ name, attention, config string }{
	{"gpt2", "eager", `{"model_type":"gpt2","n_layer":2,"n_embd":32,"n_head":4,"vocab_size":60,"n_positions":16,"resid_pdrop":0.0,"embd_pdrop":0.0,"attn_pdrop":0.0}`},
	{"gpt2", "sdpa", `{"model_type":"gpt2","n_layer":2,"n_embd":32,"n_head":4,"vocab_size":60,"n_positions":16,"resid_pdrop":0.0,"embd_pdrop":0.0,"attn_pdrop":0.0,"activation_function":"gelu_pytorch_tanh"}`},
	{"llama", "eager", decoderConfig("llama", "")},
	{"llama", "sdpa", decoderConfig("llama", `,"tie_word_embeddings":true`)},
	{"mistral", "eager", decoderConfig("mistral", `,"sliding_window":4`)},
	{"mistral", "sdpa", decoderConfig("mistral", `,"sliding_window":4`)},
	{"qwen2", "sdpa", decoderConfig("qwen2", "")},
	{"qwen3", "sdpa", decoderConfig("qwen3", `,"head_dim":16`)},
	{"bert", "eager", encoderConfig("bert", `,"vocab_size":60,"max_position_embeddings":16`)},
	{"bert", "sdpa", encoderConfig("bert", `,"vocab_size":60,"max_position_embeddings":16`)},
	{"roberta", "sdpa", encoderConfig("roberta", `,"vocab_size":60,"max_position_embeddings":18`)},
	{"vit", "eager", encoderConfig("vit", `,"image_size":16,"patch_size":4,"num_labels":5`)},
	{"vit", "sdpa", encoderConfig("vit", `,"image_size":16,"patch_size":4,"num_labels":5`)},
	{"gpt-neox", "eager", encoderConfig("gpt_neox", `,"vocab_size":60,"max_position_embeddings":64`)},
	{"phi", "sdpa", decoderConfig("phi", `,"embd_pdrop":0.0,"resid_pdrop":0.0,"attention_dropout":0.0`)},
	{"phi", "eager", strings.Replace(decoderConfig("phi", `,"qk_layernorm":true`), `"num_key_value_heads":2`, `"num_key_value_heads":4`, 1)},
	{"gpt-neox", "sdpa", encoderConfig("gpt_neox", `,"vocab_size":60,"max_position_embeddings":64,"hidden_act":"gelu_fast"`)},
	{"phi3", "sdpa", decoderConfig("phi3", `,"pad_token_id":0`)},
	{"gemma", "eager", decoderConfig("gemma", `,"head_dim":8`)},
	{"gemma2", "eager", decoderConfig("gemma2", `,"head_dim":8,"query_pre_attn_scalar":8`)},
	{"olmo2", "sdpa", decoderConfig("olmo2", "")},
	{"starcoder2", "sdpa", decoderConfig("starcoder2", `,"embedding_dropout":0.0,"residual_dropout":0.0,"attention_dropout":0.0`)},
	{"cohere", "eager", decoderConfig("cohere", "")},
	{"opt", "eager", `{"model_type":"opt","num_hidden_layers":2,"hidden_size":32,"num_attention_heads":4,"ffn_dim":64,"vocab_size":60,"max_position_embeddings":64,"word_embed_proj_dim":32,"dropout":0.0,"attention_dropout":0.0}`},
	{"opt", "sdpa", `{"model_type":"opt","num_hidden_layers":2,"hidden_size":32,"num_attention_heads":4,"ffn_dim":64,"vocab_size":60,"max_position_embeddings":64,"word_embed_proj_dim":16,"do_layer_norm_before":false,"layer_norm_elementwise_affine":false,"enable_bias":false,"dropout":0.0}`},
	{"granite", "eager", decoderConfig("granite", `,"embedding_multiplier":12.0,"residual_multiplier":0.22,"logits_scaling":16.0,"attention_multiplier":0.35355339059327373`)},
}

func decoderConfig(kind, more string) string {
	return `{"model_type":"` + kind + `","num_hidden_layers":2,"hidden_size":32,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":48,"vocab_size":60,"max_position_embeddings":64` + more + `}`
}

func encoderConfig(kind, more string) string {
	return `{"model_type":"` + kind + `","num_hidden_layers":2,"hidden_size":32,"num_attention_heads":4,"intermediate_size":64,"hidden_dropout_prob":0.0,"attention_probs_dropout_prob":0.0` + more + `}`
}

// Loss and gradients are PyTorch's for the same weights and inputs, in Hugging Face's own classes.
func TestAgreesWithTorch(t *testing.T) {
	py := torchPython(t)
	var jobs []torchValuesJob
	var engines []*engine
	for _, c := range torchConfigs {
		spec, err := model.LoadHF(c.name, []byte(c.config))
		if err != nil {
			t.Fatal(err)
		}
		spec.B, spec.Precision, spec.Attention = 2, dtype.FP32, c.attention
		if spec.Image == nil {
			spec.S = 12
		}
		e := started(t, lowered(t, memory.Compile(graphOf(t, spec)), "full"), 9)
		jobs = append(jobs, e.torchJob(c.config, c.attention))
		e.forward()
		e.backward()
		engines = append(engines, e)
	}
	for i, want := range runTorchValues(t, py, jobs) {
		c := torchConfigs[i]
		t.Run(c.name+"/"+c.attention, func(t *testing.T) { compareWithTorch(t, engines[i], &want) })
	}
}

// torchJob hands the engine's weights and inputs over.
func (e *engine) torchJob(config, attention string) torchValuesJob {
	job := torchValuesJob{json.RawMessage(config), attention, map[string]jsonTensor{}, map[string]jsonTensor{}}
	for i, p := range e.g.Params {
		job.Weights[p.Name] = toJSON(e.param(i))
	}
	for i := range e.g.Tensors {
		x := &e.g.Tensors[i]
		if s := &e.g.Storages[x.Storage]; s.Role == graph.Input && job.Inputs[s.Name].Data == "" {
			job.Inputs[s.Name] = toJSON(over(x, e.static[x.Storage]))
		}
	}
	return job
}

func runTorchValues(t *testing.T, py string, jobs []torchValuesJob) []torchValues {
	t.Helper()
	text, err := json.Marshal(jobs)
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(py, "-B", "testdata/host_values.py")
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var values []torchValues
	if err := json.Unmarshal(out, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func compareWithTorch(t *testing.T, e *engine, want *torchValues) {
	t.Helper()
	if want.Error != "" {
		t.Fatal(want.Error)
	}
	if math.Abs(e.loss-want.Loss) > 2e-6*want.Loss {
		t.Errorf("the loss is %.7f, PyTorch's %.7f", e.loss, want.Loss)
	}
	for i, p := range e.g.Params {
		raw, err := base64.StdEncoding.DecodeString(want.Gradients[p.Name])
		if err != nil {
			t.Fatal(err)
		}
		off, norm := 0.0, 0.0
		for k, x := range e.grads[i].reals() {
			y := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*k:])))
			off += (float64(x) - y) * (float64(x) - y)
			norm += y * y
		}
		if off, norm = math.Sqrt(off), math.Sqrt(norm); off > 1e-5*norm+1e-6 {
			t.Errorf("%s: the gradient differs by %.2g of a norm of %.4g", p.Name, off, norm)
		}
	}
}

// torchPython is an interpreter with PyTorch: $TORCH_PYTHON, as tools/torch-env prints it.
func torchPython(t *testing.T) string {
	t.Helper()
	py := os.Getenv("TORCH_PYTHON")
	if py == "" {
		t.Skip("TORCH_PYTHON names no Python with PyTorch (tools/torch-env prints one)")
	}
	return py
}

func graphOf(t *testing.T, s *spec.Spec) *graph.Graph {
	t.Helper()
	g, err := model.Build(s, build.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}
