package model

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"ckptplan/configs"
	"ckptplan/internal/model/spec"
	"ckptplan/internal/nearest"
)

// Preset is a model that is part of the binary: a document of configs/models.
type Preset struct {
	Name        string
	Description string // one line
	Parameters  int64  // of the Hugging Face class with these sizes; a tied weight counts once
}

// Presets are the presets by name.
func Presets() []Preset {
	names := presetNames()
	ps := make([]Preset, 0, len(names))
	for _, name := range names {
		src, err := configs.Models.ReadFile("models/" + name + ".yaml")
		if err != nil {
			continue
		}
		p := Preset{Name: name}
		for line := range bytes.Lines(src) {
			text, comment := strings.CutPrefix(strings.TrimSpace(string(line)), "# ")
			if !comment {
				break
			}
			if n, ok := strings.CutPrefix(text, "parameters: "); ok {
				p.Parameters, _ = strconv.ParseInt(n, 10, 64)
			} else if !strings.HasPrefix(text, "yaml-language-server") {
				p.Description = strings.TrimSuffix(text, ".")
			}
		}
		ps = append(ps, p)
	}
	return ps
}

// LoadPreset reads the preset of that name; PresetName says which other names it has.
func LoadPreset(name string) (*spec.Spec, error) {
	known, ok := PresetName(name)
	if !ok {
		return nil, &UnknownPresetError{Name: name, Nearest: nearest.Name(presetKey(name), presetNames())}
	}
	file := "models/" + known + ".yaml"
	src, err := configs.Models.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("preset %s: %w", known, err)
	}
	return Load(file, src)
}

// UnknownPresetError says that a name is neither a preset nor a file.
type UnknownPresetError struct {
	Name    string
	Nearest string // the preset that was most likely meant, or ""
	Err     error  // why the file of that name was not read, or nil
}

func (e *UnknownPresetError) Error() string {
	switch {
	case errors.Is(e.Err, syscall.EISDIR):
		return e.Name + ": a folder without a config.json; name a YAML spec, a config.json or a preset of `ckptplan models`"
	case e.Err != nil && !errors.Is(e.Err, fs.ErrNotExist) && !errors.Is(e.Err, syscall.ENOTDIR):
		return fmt.Sprintf("%s is no preset, and not a file that can be read: %v", e.Name, e.Err)
	}
	text := fmt.Sprintf("%s is no preset and no file", e.Name)
	if strings.ContainsAny(e.Name, "/\\") || slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(e.Name)) {
		text = fmt.Sprintf("%s: no such file, and no preset of that name", e.Name)
	}
	if e.Nearest != "" {
		text += fmt.Sprintf(" (did you mean %q?)", e.Nearest)
	}
	return text + "; a path must exist, and `ckptplan models` lists the presets"
}

func (e *UnknownPresetError) Unwrap() error { return e.Err }

// presetAliases are names of published checkpoints that PresetName's rules do not reach.
var presetAliases = map[string]string{
	"gpt2-small": "gpt2", "gpt-2": "gpt2", "gpt2-124m": "gpt2", "gpt2-355m": "gpt2-medium", "gpt2-774m": "gpt2-large", "gpt2-1.5b": "gpt2-xl",
	"gpt3-xl": "gpt-1.3b", "gpt-3-xl": "gpt-1.3b",
	"tinyllama-1.1b-chat-v1.0": "tinyllama-1.1b", "tinyllama": "tinyllama-1.1b",
	"mistral-7b-v0.1": "mistral-7b", "mistral-7b-instruct-v0.1": "mistral-7b",
	"mixtral-8x7b-v0.1": "mixtral-8x7b", "mixtral-8x7b-instruct-v0.1": "mixtral-8x7b",
	"phi-1-5": "phi-1.5", "phi-3-mini-4k": "phi-3-mini", "c4ai-command-r-v01": "command-r",
	"olmo-2-1124-7b": "olmo-2-7b", "olmo-3-1025-7b": "olmo-3-7b", "olmo3-7b": "olmo-3-7b", "smollm3": "smollm3-3b", "qwen2-moe": "qwen1.5-moe-a2.7b",
	"granite-3.0-8b":    "granite-3-8b",
	"bert-base-uncased": "bert-base", "bert-large-uncased": "bert-large",
	"vit-base-patch16-224": "vit-base", "vit-large-patch16-224": "vit-large", "pythia-410m-deduped": "pythia-410m",
}

// PresetName finds the preset that a name stands for: case, the organisation (meta-llama/…), hyphens or underscores,
// and the endings -hf, -instruct, -chat, -it, -pt and -base do not matter.
func PresetName(name string) (string, bool) {
	key := presetKey(name)
	for {
		if slices.Contains(presetNames(), key) {
			return key, true
		}
		if known, ok := presetAliases[key]; ok {
			return known, true
		}
		cut := key
		for _, end := range []string{"-hf", "-instruct", "-chat", "-it", "-pt", "-base"} {
			cut = strings.TrimSuffix(cut, end)
		}
		if rest, ok := strings.CutPrefix(key, "meta-"); ok {
			cut = rest
		}
		if cut == key {
			return "", false
		}
		key = cut
	}
}

func presetKey(name string) string {
	if org, model, ok := strings.Cut(name, "/"); ok && org != "." && org != ".." && org != "" && !strings.Contains(model, "/") {
		name = model
	}
	return nearest.Fold(name)
}

// presetNames are the names of the embedded documents, sorted.
func presetNames() []string {
	entries, err := configs.Models.ReadDir("models")
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".yaml"); ok {
			names = append(names, name)
		}
	}
	return names
}

// LoadAny reads what a user names as MODEL: a preset, a YAML spec, a config.json of Hugging Face, or a folder with a
// config.json. The error is an *UnknownPresetError if there is neither preset nor file, and a Diagnostics if the file
// is not valid. replaced are as in LoadHF.
func LoadAny(arg string, readFile func(string) ([]byte, error), replaced ...string) (*spec.Spec, error) {
	known, preset := PresetName(arg)
	if preset && !strings.ContainsAny(arg, "/\\") {
		return LoadPreset(known)
	}
	file := arg
	src, err := readFile(file)
	if err != nil {
		file = path.Join(arg, "config.json")
		if inside, errInside := readFile(file); errInside == nil {
			src, err = inside, nil
		}
	}
	switch {
	case err != nil && preset:
		return LoadPreset(known)
	case err != nil:
		return nil, &UnknownPresetError{Name: arg, Nearest: nearest.Name(presetKey(arg), presetNames()), Err: err}
	case looksLikeConfig(file, src):
		return LoadHF(file, src, replaced...)
	}
	return Load(file, src)
}

// looksLikeConfig is true for a config.json of Hugging Face; a spec written as JSON is YAML too.
func looksLikeConfig(file string, src []byte) bool {
	object := bytes.HasPrefix(bytes.TrimSpace(src), []byte("{"))
	return object && bytes.Contains(src, []byte(`"model_type"`)) ||
		strings.EqualFold(path.Ext(file), ".json") && !bytes.Contains(src, []byte(`"heads"`))
}

// nameOf is the model's name that a file's path gives: its base, or the folder's for a config.json. In the cache of Hugging
// Face, …/models--org--name/snapshots/COMMIT/config.json, it is org/name.
func nameOf(file string) string {
	file = strings.ReplaceAll(file, "\\", "/")
	base := path.Base(file)
	if snapshots := path.Dir(path.Dir(file)); path.Base(snapshots) == "snapshots" {
		if id, ok := strings.CutPrefix(path.Base(path.Dir(snapshots)), "models--"); ok {
			return strings.ReplaceAll(id, "--", "/")
		}
	}
	if dir := path.Base(path.Dir(file)); base == "config.json" && dir != "." && dir != "/" && dir != ".." {
		return dir
	}
	return strings.TrimSuffix(base, path.Ext(base))
}
