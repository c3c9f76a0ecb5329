// Package groundtruth reads the training steps that PyTorch was measured to run (testdata/ground-truth), and describes each
// as a spec. Only tests import it.
package groundtruth

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ckptplan/internal/model"
	"ckptplan/internal/model/dtype"
	"ckptplan/internal/model/spec"
)

// Case is one measured step; testdata/ground-truth/README.md explains the keys.
type Case struct {
	ID         string          `json:"id"`
	Model      string          `json:"model"`
	ModelType  string          `json:"model_type"`
	Auto       string          `json:"auto"`
	Config     json.RawMessage `json:"config"`
	Batch      int             `json:"batch"`
	Seq        int             `json:"seq"`
	DecSeq     int             `json:"dec_seq"`
	Precision  string          `json:"precision"`
	Attention  string          `json:"attention"`
	Strategy   string          `json:"strategy"`
	Optimizer  string          `json:"optimizer"`
	KeepLogits *bool           `json:"keep_logits"`
	GradAccum  int             `json:"grad_accum"`
	ZeroGrad   string          `json:"zero_grad"`
	LossChunks int             `json:"loss_chunks"`
	LoRA       *spec.LoRA      `json:"lora"`
	QLoRA      *spec.LoRA      `json:"qlora"`
	Norm       string          `json:"norm"`
	Result     struct {
		BeforeBackward1 int64           `json:"before_backward_1"`
		BeforeBackward2 int64           `json:"before_backward_2"`
		StaticBytes     int64           `json:"static_bytes"`
		Parameters      int64           `json:"all_parameters"`
		Trainable       int64           `json:"trainable_parameters"`
		HostBytes       int64           `json:"host_bytes"`
		Peaks           map[string]Peak `json:"peaks"`      // by step and phase: "2.backward"
		Backward        Trace           `json:"backward_2"` // of cases that ask for it
	} `json:"result"`
	dir string // where it was read from
}

// Trace is what is alive after each allocating op of a phase, in bytes.
type Trace []int64

// UnmarshalJSON reads numbers with blanks between them.
func (t *Trace) UnmarshalJSON(src []byte) error {
	var s string
	if err := json.Unmarshal(src, &s); err != nil {
		return err
	}
	for _, f := range strings.Fields(s) {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return err
		}
		*t = append(*t, n)
	}
	return nil
}

// Peak is the most that was alive in a phase, and the ATen op at which it was.
type Peak struct {
	Bytes int64  `json:"bytes"`
	Op    string `json:"op"`
}

// The files of cases: those that the project was given, its own, those of the decoders that came last, and
// those of 16-bit weights under autocast.
const (
	Given     = "cases.json"
	Own       = "extra-cases.json"
	Decoders  = "decoder-cases.json"
	Precision = "precision-cases.json"
)

// Load reads the cases of the named files; without a name, of all.
func Load(t testing.TB, files ...string) []*Case {
	t.Helper()
	if len(files) == 0 {
		files = []string{Given, Own, Decoders, Precision}
	}
	var all []*Case
	dir := Dir(t)
	for _, f := range files {
		src, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			t.Fatal(err)
		}
		var cs []*Case
		if err := json.Unmarshal(src, &cs); err != nil {
			t.Fatal(err)
		}
		for _, c := range cs {
			c.dir = dir
		}
		all = append(all, cs...)
	}
	return all
}

// ByID reads all cases by their names.
func ByID(t testing.TB) map[string]*Case {
	t.Helper()
	out := map[string]*Case{}
	for _, c := range Load(t) {
		out[c.ID] = c
	}
	return out
}

// Dir is testdata/ground-truth, seen from a test of any package.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if d := filepath.Join(dir, "testdata", "ground-truth"); exists(d) {
			return d
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("testdata/ground-truth is not above the test")
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, os.ErrNotExist)
}

// KeepsLogits is true if the caller holds the model's output through backward.
func (c *Case) KeepsLogits() bool { return c.KeepLogits == nil || *c.KeepLogits }

// ConfigJSON is the case's config.json: its sizes, and what else differs from the class's defaults.
func (c *Case) ConfigJSON() ([]byte, error) {
	cfg := map[string]any{}
	if err := json.Unmarshal(c.Config, &cfg); err != nil {
		return nil, err
	}
	cfg["model_type"] = c.ModelType
	if head := strings.TrimPrefix(c.Auto, "AutoModel"); slices.Contains([]string{"ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"}, head) {
		cfg["architectures"] = []string{map[string]string{"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert", "distilbert": "DistilBert", "electra": "Electra", "llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "mixtral": "Mixtral", "qwen3_moe": "Qwen3Moe", "phi": "Phi", "phi3": "Phi3", "gemma": "Gemma", "gemma2": "Gemma2", "olmo2": "Olmo2", "starcoder2": "Starcoder2", "gemma3_text": "Gemma3Text", "smollm3": "SmolLM3", "olmo3": "Olmo3", "glm4": "Glm4", "qwen2_moe": "Qwen2Moe", "gpt_oss": "GptOss"}[c.ModelType] + head}
	}
	return json.Marshal(cfg)
}

// Spec is the model with the settings under which it was measured.
func (c *Case) Spec() (*spec.Spec, error) {
	s, err := c.class()
	if err != nil {
		return nil, err
	}
	s.B, s.S = c.Batch, c.Seq
	if s.DecoderL > 0 {
		s.DecoderS = cmp.Or(c.DecSeq, c.Seq)
	}
	weights, autocast, both := strings.Cut(c.Precision, "+amp-")
	s.Precision = dtype.Precision(weights)
	if both {
		s.Autocast = autocast
	}
	s.Attention = c.Attention
	s.Checkpoint = c.Strategy
	s.Train.Optimizer = strings.ReplaceAll(cmp.Or(c.Optimizer, "adamw"), "_", "-")
	s.Train.KeepLogits = c.KeepsLogits()
	s.Train.GradAccum = max(1, c.GradAccum)
	if c.ZeroGrad == "zeros" { // gradients are there in the second step's forward, as in a second micro batch's
		s.Train.GradAccum++
	}
	s.Train.LossChunks = max(1, c.LossChunks)
	s.Norm = cmp.Or(c.Norm, s.Norm)
	if l := cmp.Or(c.LoRA, c.QLoRA); l != nil {
		s.Train.LoRA, s.Train.Finetune = l, "lora"
	}
	return s, nil
}

// class is the model alone: a Hugging Face config (the full one, where there is one), or the arguments of measure.py's
// TorchEncoder or CustomStack.
func (c *Case) class() (*spec.Spec, error) {
	switch c.ModelType {
	case "torch-encoder":
		return c.torchEncoder()
	case "custom":
		return c.custom()
	}
	config, err := os.ReadFile(filepath.Join(c.dir, "configs", c.Model+".json"))
	if err != nil {
		if config, err = c.ConfigJSON(); err != nil {
			return nil, err
		}
	}
	return model.LoadHF(c.ID, config)
}

func (c *Case) torchEncoder() (*spec.Spec, error) {
	a := struct {
		L         int      `json:"num_layers"`
		H         int      `json:"d_model"`
		Heads     int      `json:"nhead"`
		FFN       int      `json:"dim_feedforward"`
		Vocab     int      `json:"vocab_size"`
		Dropout   *float64 `json:"dropout"`
		Act       string   `json:"activation"`
		NormFirst bool     `json:"norm_first"`
		Causal    bool     `json:"causal"`
		Positions string   `json:"positions"`
		MaxLen    int      `json:"max_len"`
		FinalNorm bool     `json:"final_norm"`
		Block     string   `json:"block"`
		Bias      bool     `json:"bias"`
	}{Act: "relu", Positions: "learned", MaxLen: 5000, Bias: true}
	if err := json.Unmarshal(c.Config, &a); err != nil {
		return nil, err
	}
	p := 0.1
	if a.Dropout != nil {
		p = *a.Dropout
	}
	s := &spec.Spec{
		Name: c.ID, Arch: "torch-encoder", L: a.L, H: a.H, Heads: a.Heads, KVHeads: a.Heads, HeadDim: a.H / a.Heads, FFN: a.FFN, Vocab: a.Vocab,
		MaxS: a.MaxLen, Norm: "layernorm", NormOrder: "post", Activation: a.Act, Positions: a.Positions, Causal: a.Causal, FinalNorm: a.FinalNorm,
		Bias:    spec.Bias{QKV: a.Bias, Out: a.Bias, MLP: a.Bias, Head: true, Norm: a.Bias},
		Dropout: spec.Dropout{Embedding: p, Attention: p, Residual: p, MLP: p},
	}
	if a.NormFirst {
		s.NormOrder = "pre"
	}
	if a.Block == "nn.MultiheadAttention" {
		s.NeedWeights, s.NormOrder, s.Activation, s.Dropout.MLP = true, "pre", "gelu", 0
	}
	return s, nil
}

func (c *Case) custom() (*spec.Spec, error) {
	var a struct {
		L      int      `json:"num_layers"`
		H      int      `json:"width"`
		Ops    []string `json:"ops"`
		Labels int      `json:"labels"`
		Vocab  int      `json:"vocab_size"`
	}
	if err := json.Unmarshal(c.Config, &a); err != nil {
		return nil, err
	}
	return &spec.Spec{
		Name: c.ID, Arch: "custom", L: a.L, H: a.H, Heads: 1, KVHeads: 1, HeadDim: a.H, Ops: a.Ops, Labels: a.Labels, Vocab: a.Vocab, Norm: "layernorm",
		Bias: spec.Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true},
	}, nil
}
