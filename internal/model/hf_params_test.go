package model

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"ckptplan/internal/model/spec"
)

// classParameters are the parameters of each class's default configuration, counted on the classes of transformers
// 5.12 on the meta device (tied weights once).
var classParameters = map[string]int64{
	"gpt2":       124439808,
	"llama":      6738415616,
	"mistral":    7241732096,
	"qwen2":      12049846272,
	"qwen3":      12049461248,
	"gpt_neox":   20554567680,
	"opt":        125239296,
	"bert":       109514298,
	"roberta":    124696665,
	"vit":        85800194,
	"mixtral":    46702792704,
	"qwen3_moe":  15350731776,
	"phi":        1418270720,
	"phi3":       3821079552,
	"gemma":      8537680896,
	"gemma2":     2614341888,
	"olmo2":      6888624128,
	"starcoder2": 3030371328,
	"falcon":     6921720704,
	"bloom":      16156544,
	"granite":    6738415616,
	"cohere":     34980831232,
	"t5":         60506624,

	"xlm-roberta": 109514298,
	"camembert":   109514298,
	"distilbert":  66985530,
	"electra":     13546682,
	"mt5":         172119424,

	"olmo3":       6888624128,
	"smollm3":     3075098624,
	"glm4":        9400279040,
	"qwen2_moe":   14315784192,
	"gemma3_text": 2628658432,
	"gpt_oss":     116829156672,
}

// The presets' sizes and switches give the parameters that were counted on the Hugging Face class of each.
func TestPresetParameters(t *testing.T) {
	for _, p := range Presets() {
		s, err := LoadPreset(p.Name)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := countParameters(s); got != p.Parameters || got == 0 {
			t.Errorf("%s: %d parameters, counted %d", p.Name, got, p.Parameters)
		}
		if s.Name != p.Name || p.Description == "" || len(s.Warnings) > 0 {
			t.Errorf("%s: named %s, described %q, warnings %q", p.Name, s.Name, p.Description, s.Warnings)
		}
		roundTrip(t, s)
	}
}

// The measured configs describe the models that were measured.
func TestMeasuredParameters(t *testing.T) {
	src, err := os.ReadFile("../../testdata/ground-truth/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Model  string
		Result struct {
			AllParameters int64 `json:"all_parameters"`
			Trainable     int64 `json:"trainable_parameters"`
		}
	}
	if err := json.Unmarshal(src, &cases); err != nil {
		t.Fatal(err)
	}
	checked := map[string]bool{}
	for _, c := range cases {
		if checked[c.Model] || c.Result.Trainable != c.Result.AllParameters {
			continue // adapters count too
		}
		file := "../../testdata/ground-truth/configs/" + c.Model + ".json"
		config, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		s, err := LoadHF(file, config)
		if err != nil {
			t.Error(err)
			continue
		}
		checked[c.Model] = true
		if got := countParameters(s); got != c.Result.AllParameters {
			t.Errorf("%s: %d parameters, measured %d", c.Model, got, c.Result.AllParameters)
		}
	}
	if len(checked) < 16 {
		t.Errorf("%d models checked", len(checked))
	}
}

// countParameters adds up the weights that a spec describes.
func countParameters(s *spec.Spec) int64 {
	h, v, heads, kv, hd := int64(s.H), int64(s.Vocab), int64(s.Heads), int64(s.KVHeads), int64(s.HeadDim)
	bias := func(on bool, n int64) int64 {
		if on {
			return n
		}
		return 0
	}
	norm := h + bias(s.Bias.Norm, h)
	if s.PlainNorm {
		norm = 0
	}
	attn := h*hd*(heads+2*kv) + bias(s.Bias.QKV, hd*(heads+2*kv)) + hd*heads*h + bias(s.Bias.Out, h)
	if s.QKNorm {
		if s.Arch == "olmo2" || s.Arch == "olmo3" { // over all heads together
			attn += hd * (heads + kv)
		} else {
			attn += 2 * hd
		}
	}
	mlp := func(f int64) int64 {
		n := 2*h*f + bias(s.Bias.MLP, f+h)
		if s.Gated {
			n += h*f + bias(s.Bias.MLP, f)
		}
		return n
	}
	if s.Arch == "gpt-oss" {
		attn += heads // sinks
	}
	norms := int64(2)
	switch s.Arch {
	case "phi", "cohere":
		norms = 1
	case "falcon":
		if s.ParallelResidual && !s.NewDecoder {
			norms = 1
		}
	case "gemma2", "gemma3-text", "glm4":
		norms = 4
	}
	n := int64(s.L) * (attn + norms*norm)
	for l := range s.L {
		if m := s.MoE; m != nil && !slices.Contains(m.DenseLayers, l) && (l+1)%m.SparseStep == 0 {
			n += int64(m.Experts) * (mlp(int64(m.FFN)) + h)
			if s.Arch == "gpt-oss" { // biases of router and experts
				n += int64(m.Experts) * (1 + 2*int64(m.FFN) + h)
			}
			if m.SharedFFN > 0 {
				n += mlp(int64(m.SharedFFN)) + h // and its gate
			}
		} else {
			n += mlp(int64(s.FFN))
		}
	}

	e := h
	if s.EmbedDim != 0 {
		e = int64(s.EmbedDim)
		n += 2 * e * h
	}
	n += v * e
	if !s.Tied && v > 0 {
		n += v * e
	}
	n += bias(s.Bias.Head, v)
	switch s.Arch {
	case "gpt2":
		n += int64(s.MaxS)*h + norm
	case "opt":
		n += int64(s.MaxS+2) * h
		if s.FinalNorm {
			n += norm
		}
	case "bert", "roberta", "xlm-roberta", "camembert", "distilbert":
		n += int64(s.MaxS+s.Types)*h + norm + h*h + h + norm // embeddings; the head's dense and norm
	case "electra":
		n += int64(s.MaxS+s.Types)*e + 2*e + e + 2*e // embeddings; the head's bias and norm
		if e == h {
			n += h * h
		} else {
			n += h
		}
	case "vit":
		p := int64(s.Image.Patch)
		n += int64(s.Image.Channels)*p*p*h + h + h + int64(s.S)*h + norm + (h+1)*int64(s.Labels)
	case "bloom":
		n += 2 * norm
	case "t5", "mt5":
		n += int64(s.DecoderL)*(2*attn+mlp(int64(s.FFN))+3*norm) + 2*norm + 2*32*heads // relative biases of 32 buckets
	default:
		n += norm
	}
	return n
}
