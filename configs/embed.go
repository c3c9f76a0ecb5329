// Package configs holds the model presets and the GPU data sheets that are part of the binary.
package configs

import "embed"

// Models are the model presets, one spec document each.
//
//go:embed models/*.yaml
var Models embed.FS

// GPUs are the data sheets of graphics cards.
//
//go:embed gpus/*.yaml
var GPUs embed.FS
