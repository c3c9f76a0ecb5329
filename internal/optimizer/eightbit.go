package optimizer

// What bitsandbytes keeps in 8 bits.
// Source: bitsandbytes/optim/optimizer.py (init_state of Optimizer1State and Optimizer2State, min_8bit_size, fill_qmap).
const (
	least8bit = 4096    // elements: a smaller parameter has its state in fp32
	block     = 256     // elements with one scale
	qmap      = 256 * 4 // bytes: the fp32 value of each code, once for all parameters
)

// eight is the size of the state tensors of an 8-bit optimizer with that many moments: a code of one byte an element for
// each moment, then the fp32 scales of each moment's blocks. A small parameter has fp32 moments and no scales.
func eight(moments int) func(k int, elements int64) int64 {
	return func(k int, elements int64) int64 {
		switch codes := k < moments; {
		case elements >= least8bit && codes:
			return elements
		case elements >= least8bit:
			return 4 * ((elements + block - 1) / block)
		case codes:
			return 4 * elements
		}
		return 0
	}
}
