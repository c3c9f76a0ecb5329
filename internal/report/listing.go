package report

import (
	"errors"
	"fmt"

	"ckptplan/internal/gpu"
	"ckptplan/internal/model"
	"ckptplan/internal/study"
	"ckptplan/internal/unit"
)

// Models lists the presets.
func Models() (*Document, error) {
	type preset struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Parameters  int64  `json:"parameters"`
		Arch        string `json:"arch"`
		L           int    `json:"L"`
		H           int    `json:"H"`
		Heads       int    `json:"heads"`
		KVHeads     int    `json:"kv_heads"`
		FFN         int    `json:"ffn"`
		Vocab       int    `json:"vocab,omitempty"`
		S           int    `json:"S"`
		B           int    `json:"B"`
	}
	var list []preset
	t := Table{Columns: []Column{
		{Name: "model"},
		{Name: "parameters"},
		{Name: "arch"},
		{Name: "layers", Key: "L"},
		{Name: "hidden", Key: "H"},
		{Name: "heads"},
		{Name: "kv heads", Key: "kv_heads"},
		{Name: "ffn"},
		{Name: "vocab"},
		{Name: "seq", Key: "S"},
		{Name: "batch", Key: "B"},
		{Name: "description"},
	}}
	for _, p := range model.Presets() {
		s, err := model.LoadPreset(p.Name)
		if err != nil {
			return nil, err
		}
		list = append(list, preset{p.Name, p.Description, p.Parameters, s.Arch, s.L, s.H, s.Heads, s.KVHeads, s.FFN, s.Vocab, s.S, s.B})
		var vocab any // a classifier has none
		if s.Vocab > 0 {
			vocab = Count(s.Vocab)
		}
		t.Rows = append(t.Rows, Row{
			p.Name, Count(p.Parameters), s.Arch, Count(s.L), Count(s.H), Count(s.Heads), Count(s.KVHeads),
			Count(s.FFN), vocab, Count(s.S), Count(s.B), p.Description,
		})
	}
	return &Document{Tables: []Table{t}, Rows: t, Data: struct {
		FormatVersion int      `json:"format_version"`
		Models        []preset `json:"models"`
	}{study.FormatVersion, list}}, nil
}

// GPUs lists data sheets and the devices that were found; err says why there are none.
func GPUs(sheets []*gpu.Sheet, devices []gpu.Device, err error) *Document {
	type sheet struct {
		Name              string     `json:"name"`
		SoldAs            unit.Bytes `json:"sold_as_bytes"`
		Total             unit.Bytes `json:"total_bytes"`
		BF16              int64      `json:"bf16_flops,omitempty"`
		FP16              int64      `json:"fp16_flops,omitempty"`
		FP32              int64      `json:"fp32_flops"`
		Bandwidth         int64      `json:"bandwidth_bytes_per_second"`
		HostLink          int64      `json:"host_link_bytes_per_second"`
		ComputeCapability string     `json:"compute_capability,omitempty"`
		GFX               string     `json:"gfx,omitempty"`
		SMs               int        `json:"sms"`
		Source            string     `json:"source"`
		MemorySource      string     `json:"memory_source"`
	}
	type device struct {
		Name  string     `json:"name"`
		Free  unit.Bytes `json:"free_bytes"`
		Total unit.Bytes `json:"total_bytes"`
	}
	data := struct {
		FormatVersion int      `json:"format_version"`
		GPUs          []sheet  `json:"gpus"`
		Devices       []device `json:"devices"`
	}{FormatVersion: study.FormatVersion, Devices: []device{}}

	t := Table{Columns: []Column{
		{Name: "gpu"},
		{Name: "sold as (GB)", Key: "sold_as_bytes"},
		{Name: "PyTorch sees", Key: "total_bytes"},
		{Name: "bf16 (TFLOP/s)", Key: "bf16_flops"},
		{Name: "fp32 (TFLOP/s)", Key: "fp32_flops"},
		{Name: "memory (GB/s)", Key: "bandwidth_bytes_per_second"},
		{Name: "host link (GB/s)", Key: "host_link_bytes_per_second"},
		{Name: "sm"},
		{Name: "SMs"},
	}}
	for _, s := range sheets {
		row := sheet{
			Name: s.Name, SoldAs: s.SoldAs, Total: s.TotalBytes, BF16: s.Peaks.BF16, FP16: s.Peaks.FP16, FP32: s.Peaks.FP32,
			Bandwidth: s.Bandwidth, HostLink: s.HostLink, GFX: s.GFX, SMs: s.SMs, Source: s.Source, MemorySource: s.MemorySource,
		}
		if s.GFX == "" {
			row.ComputeCapability = s.ComputeCapability.String()
		}
		data.GPUs = append(data.GPUs, row)
		var bf16 any // not every card has units for it
		if s.Peaks.BF16 > 0 {
			bf16 = Scaled{s.Peaks.BF16, 1e12}
		}
		t.Rows = append(t.Rows, Row{
			s.Name,
			Scaled{int64(s.SoldAs), 1e9},
			s.TotalBytes, bf16,
			Scaled{s.Peaks.FP32, 1e12},
			Scaled{s.Bandwidth, 1e9},
			Scaled{s.HostLink, 1e9},
			s.Architecture(), Count(s.SMs),
		})
	}
	found := Table{Title: "devices of this machine"}
	switch {
	case errors.Is(err, gpu.ErrNoDriver):
		found.Notes = []string{"none: " + err.Error()}
	case err != nil:
		found.Notes = []string{err.Error()}
	default:
		found.Columns = []Column{{Name: "device"}, {Name: "name"}, {Name: "free"}, {Name: "total"}}
	}
	for i, dev := range devices {
		free, total, err := dev.Memory()
		if err != nil {
			found.Notes = append(found.Notes, fmt.Sprintf("%s: %v", dev.Name(), err))
			continue
		}
		data.Devices = append(data.Devices, device{dev.Name(), free, total})
		found.Rows = append(found.Rows, Row{Count(i), dev.Name(), free, total})
	}
	return &Document{Tables: []Table{t, found}, Rows: t, Data: data}
}
