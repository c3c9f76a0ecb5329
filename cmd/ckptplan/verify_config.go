package main

import (
	"encoding/json"
	"path/filepath"

	"ckptplan/internal/model"
)

// hfConfig is the config.json of Hugging Face that a model's name stands for, or nil.
func hfConfig(name string) []byte {
	if _, preset := model.PresetName(name); preset && filepath.Base(name) == name {
		return nil
	}
	for _, file := range []string{name, filepath.Join(name, "config.json")} {
		src, err := readInput(file)
		if err != nil {
			continue
		}
		var c struct {
			Type string `json:"model_type"`
		}
		if json.Unmarshal(src, &c) == nil && c.Type != "" {
			return src
		}
		return nil
	}
	return nil
}
