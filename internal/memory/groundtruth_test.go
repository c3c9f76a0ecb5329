package memory

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"ckptplan/internal/model"
	"ckptplan/internal/plan"
)

type measured struct {
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
	LoRA       *struct {
		R       int      `json:"r"`
		Alpha   float64  `json:"alpha"`
		Dropout float64  `json:"dropout"`
		DType   string   `json:"dtype"`
		Targets []string `json:"targets"`
	} `json:"lora"`
	Result struct {
		AfterForward2   int64 `json:"after_forward_2"`
		BeforeBackward2 int64 `json:"before_backward_2"`
		StaticBytes     int64 `json:"static_bytes"`
		Parameters      int64 `json:"all_parameters"`
		Trainable       int64 `json:"trainable_parameters"`
		HostBytes       int64 `json:"host_bytes"`
		Peaks           map[string]struct {
			Bytes int64  `json:"bytes"`
			Op    string `json:"op"`
		} `json:"peaks"`
	} `json:"result"`
	Error string `json:"error"`
}

func (c *measured) spec() (*model.Spec, error) {
	s, err := c.class()
	if err != nil {
		return nil, err
	}
	s.B, s.S = c.Batch, c.Seq
	if s.DecoderL > 0 {
		s.DecoderS = cmp.Or(c.DecSeq, c.Seq)
	}
	s.Precision = model.Precision(c.Precision)
	s.Attention = c.Attention
	s.Checkpoint = c.Strategy
	s.Train.Optimizer = strings.ReplaceAll(c.Optimizer, "_", "-")
	if c.Optimizer == "" {
		s.Train.Optimizer = "adamw"
	}
	s.Train.KeepLogits = c.KeepLogits == nil || *c.KeepLogits
	s.Train.GradAccum = max(1, c.GradAccum)
	if c.ZeroGrad == "zeros" { // gradients are there in the second step's forward, as in a second micro batch's
		s.Train.GradAccum++
	}
	s.Train.LossChunks = max(1, c.LossChunks)
	if c.LoRA != nil {
		s.Train.LoRA = &model.LoRA{Rank: c.LoRA.R, Alpha: c.LoRA.Alpha, Dropout: c.LoRA.Dropout, DType: c.LoRA.DType, Targets: c.LoRA.Targets}
		s.Train.Finetune = "lora"
	}
	return s, nil
}

// class is the model alone: a Hugging Face config, or the arguments of measure.py's TorchEncoder or CustomStack.
func (c *measured) class() (*model.Spec, error) {
	switch c.ModelType {
	case "torch-encoder":
		return c.torchEncoder()
	case "custom":
		return c.custom()
	}
	src, err := os.ReadFile("../../testdata/ground-truth/configs/" + c.Model + ".json")
	if err != nil || c.Model == "" {
		cfg := map[string]any{}
		if err := json.Unmarshal(c.Config, &cfg); err != nil {
			return nil, err
		}
		cfg["model_type"] = c.ModelType
		if head := strings.TrimPrefix(c.Auto, "AutoModel"); slices.Contains([]string{"ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"}, head) {
			cfg["architectures"] = []string{map[string]string{"bert": "Bert", "roberta": "Roberta"}[c.ModelType] + head}
		}
		src, _ = json.Marshal(cfg)
	}
	return model.LoadHF(c.ID, src)
}

func (c *measured) torchEncoder() (*model.Spec, error) {
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
	s := &model.Spec{
		Name: c.ID, Arch: "torch-encoder", L: a.L, H: a.H, Heads: a.Heads, KVHeads: a.Heads, HeadDim: a.H / a.Heads, FFN: a.FFN, Vocab: a.Vocab,
		MaxS: a.MaxLen, Norm: "layernorm", NormOrder: "post", Activation: a.Act, Positions: a.Positions, Causal: a.Causal, FinalNorm: a.FinalNorm,
		Bias:    model.Bias{QKV: a.Bias, Out: a.Bias, MLP: a.Bias, Head: true, Norm: a.Bias},
		Dropout: model.Dropout{Embedding: p, Attention: p, Residual: p, MLP: p},
	}
	if a.NormFirst {
		s.NormOrder = "pre"
	}
	if a.Block == "nn.MultiheadAttention" {
		s.NeedWeights, s.NormOrder, s.Activation, s.Dropout.MLP = true, "pre", "gelu", 0
	}
	return s, nil
}

func (c *measured) custom() (*model.Spec, error) {
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
	return &model.Spec{
		Name: c.ID, Arch: "custom", L: a.L, H: a.H, Heads: 1, KVHeads: 1, HeadDim: a.H, Ops: a.Ops, Labels: a.Labels, Vocab: a.Vocab, Norm: "layernorm",
		Bias: model.Bias{QKV: true, Out: true, MLP: true, Head: true, Norm: true},
	}, nil
}

func loadCases(t testing.TB, files ...string) []measured {
	var all []measured
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var cs []measured
		if err := json.Unmarshal(src, &cs); err != nil {
			t.Fatal(err)
		}
		all = append(all, cs...)
	}
	return all
}

func simulate(c *measured) (*Timeline, error) {
	s, err := c.spec()
	if err != nil {
		return nil, err
	}
	g, err := s.Build()
	if err != nil {
		return nil, err
	}
	pl, err := plan.Named(c.Strategy, g.Layers)
	if err != nil {
		return nil, err
	}
	return Judge(Compile(g), pl, nil)
}

// TestTrace prints the events of one case for comparison with `tools/measure.py trace`.
func TestTrace(t *testing.T) {
	file, id := os.Getenv("CKPTPLAN_TRACE_FILE"), os.Getenv("CKPTPLAN_TRACE_ID")
	if file == "" {
		t.Skip("CKPTPLAN_TRACE_FILE and CKPTPLAN_TRACE_ID name a case")
	}
	for _, c := range loadCases(t, file) {
		if c.ID != id {
			continue
		}
		s, err := c.spec()
		if err != nil {
			t.Fatal(err)
		}
		g, err := s.Build()
		if err != nil {
			t.Fatal(err)
		}
		pl, err := plan.Named(c.Strategy, g.Layers)
		if err != nil {
			t.Fatal(err)
		}
		sch, err := Lower(Compile(g), pl)
		if err != nil {
			t.Fatal(err)
		}
		if err := Observe(sch, 2, printed{}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGroundTruth(t *testing.T) {
	filter := os.Getenv("CKPTPLAN_CASES")
	var bad, n int
	files := []string{"../../testdata/ground-truth/cases.json", "../../testdata/ground-truth/extra-cases.json"}
	if f := os.Getenv("CKPTPLAN_CASE_FILE"); f != "" {
		files = []string{f}
	}
	for _, c := range loadCases(t, files...) {
		if !strings.Contains(c.ID, filter) || c.Error != "" {
			continue
		}
		n++
		r, err := simulate(&c)
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			bad++
			continue
		}
		text := ""
		worst := 0.0
		check := func(what string, got, want int64) {
			if want == 0 {
				return
			}
			d := float64(got-want) / float64(want) * 100
			if d < 0 {
				worst = max(worst, -d)
			} else {
				worst = max(worst, d)
			}
			text += fmt.Sprintf(" %s %+.3f%%(%+d)", what, d, got-want)
		}
		check("static", int64(r.Parameters+r.Inputs), c.Result.StaticBytes)
		check("fwd", r.Second.Peak[Forward].Bytes, c.Result.Peaks["2.forward"].Bytes)
		check("before", r.Second.BeforeBackward, c.Result.BeforeBackward2)
		check("bwd", r.Second.Peak[Backward].Bytes, c.Result.Peaks["2.backward"].Bytes)
		check("opt", r.Second.Peak[Optimizer].Bytes, c.Result.Peaks["2.optimizer"].Bytes)
		check("host", max(r.FirstStep().HostPeak, r.Second.HostPeak), c.Result.HostBytes)
		if worst > 0.05 {
			bad++
			t.Logf("%-50s%s  [%s|%s]", c.ID, text, r.Second.Peak[Backward].Aten, c.Result.Peaks["2.backward"].Op)
			if worst > 0.5 {
				t.Fail()
			}
		}
	}
	t.Logf("%d of %d cases beyond 0.05%%", bad, n)
}

type printed struct{}

func (printed) Pass(Pass, *Instant)      {}
func (printed) Block(int32, *Instant)    {}
func (printed) Free(ID, int64, *Instant) {}
func (printed) Alloc(_ ID, _ int64, at *Instant) {
	fmt.Printf("2.%s\t%d\t%s\n", at.Phase, at.Bytes, at.Aten)
}
