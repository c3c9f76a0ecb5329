package gpu

import "ckptplan/internal/unit"

// Budget is the memory of a device, and the part of it that is not for tensors.
type Budget struct {
	Device unit.Bytes // 0: not given
	// Reserve is the memory beside the tensors; negative takes the sheet's itemised reserve.
	Reserve unit.Bytes
	Sheet   *Sheet
}

// Tensors is what the device leaves for tensors.
func (b Budget) Tensors() unit.Bytes {
	if b.Reserve < 0 {
		return b.Sheet.TensorBudget(b.Device)
	}
	return b.Device - b.Reserve
}

// Items itemises the reserve for that many tensor bytes.
func (b Budget) Items(tensors unit.Bytes) []ReserveItem {
	if b.Reserve < 0 {
		return b.Sheet.Reserve(tensors)
	}
	if b.Reserve == 0 {
		return nil
	}
	return []ReserveItem{{Name: "reserve", Bytes: b.Reserve, Least: b.Reserve, Level: LevelDevice, Reason: "as given", Source: "--reserve"}}
}

// Need is the device memory for that many tensor bytes and their reserve.
func (b Budget) Need(tensors unit.Bytes) unit.Bytes { return tensors + Total(b.Items(tensors)) }
