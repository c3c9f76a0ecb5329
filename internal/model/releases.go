package model

import "ckptplan/internal/model/spec"

// Releases names the software whose ops a graph is made of: what is measured in testdata/ground-truth.
func Releases(s *spec.Spec) string {
	const torch = "PyTorch 2.14"
	if s.Arch == "torch-encoder" || s.Arch == "custom" {
		return torch
	}
	return torch + " and Hugging Face transformers 5.12"
}
