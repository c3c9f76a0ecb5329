package gpu

// Workspace is memory for numbers that are needed during one launch only. A nil one allocates.
type Workspace struct {
	slab []float32
	used int64
}

// Take gives n numbers, whose values are undefined, until the next Reset.
func (w *Workspace) Take(n int64) []float32 {
	if w == nil {
		return make([]float32, n)
	}
	if w.used+n > int64(len(w.slab)) { // what was taken before stays in the old slab
		w.slab, w.used = make([]float32, max(n, int64(2*len(w.slab)))), 0
	}
	w.used += n
	return w.slab[w.used-n : w.used : w.used]
}

// Reset takes all numbers back.
func (w *Workspace) Reset() { w.used = 0 }
