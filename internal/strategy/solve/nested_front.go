package solve

import "math"

// step is the beginning of a level of a step function: with m bytes or more, t nanoseconds suffice.
type step struct{ m, t int64 }

// front is a falling step function of memory: m rises and t falls strictly. Below its first step nothing fits.
type front []step

// time is the function's value; ok is false if m bytes do not suffice.
func (f front) time(m int64) (t int64, ok bool) {
	lo, hi := 0, len(f)
	for lo < hi {
		if mid := (lo + hi) / 2; f[mid].m <= m {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return 0, false
	}
	return f[lo-1].t, true
}

// part is a front used inside a larger plan, where shift more bytes are alive.
type part struct {
	f     front
	shift int64
}

// alternative is one way to treat an interval: its parts follow each other, from least bytes on, and cost time besides.
type alternative struct {
	parts [2]part
	two   bool // parts[1] is used
	least int64
	time  int64
}

// merger builds the lower envelope of alternatives. Its buffers are reused.
type merger struct {
	envelope, candidate, spare front
	walked                     int64 // steps of alternatives looked at, and a few for each alternative
}

// perAlternative is how many steps' work it takes to look at an alternative at all.
const perAlternative = 8

func (w *merger) reset() { w.envelope = w.envelope[:0] }

// add takes the lower envelope of what is there and f.
func (w *merger) add(f front) {
	if len(f) == 0 {
		return
	}
	out := w.spare[:0]
	e := w.envelope
	fastest := int64(math.MaxInt64)
	for i, k := 0, 0; i < len(e) || k < len(f); {
		var s step
		if k == len(f) || (i < len(e) && (e[i].m < f[k].m || (e[i].m == f[k].m && e[i].t <= f[k].t))) {
			s = e[i]
			i++
		} else {
			s = f[k]
			k++
		}
		if s.t < fastest {
			fastest = s.t
			out = append(out, s)
		}
	}
	w.envelope, w.spare = out, e
}

// addAlternative takes the lower envelope of what is there and an alternative, up to room bytes.
func (w *merger) addAlternative(a *alternative, room int64) {
	w.walked += perAlternative
	x, y := a.parts[0], a.parts[1]
	if len(x.f) == 0 || (a.two && len(y.f) == 0) {
		return
	}
	m := max(a.least, x.f[0].m+x.shift)
	if a.two {
		m = max(m, y.f[0].m+y.shift)
	}
	out := w.candidate[:0] // only what the envelope does not have yet: most alternatives add nothing
	known := w.envelope
	i, k, e := 0, 0, -1
	for m <= room {
		w.walked++
		for i+1 < len(x.f) && x.f[i+1].m+x.shift <= m {
			i++
		}
		t, next := a.time+x.f[i].t, int64(math.MaxInt64)
		if i+1 < len(x.f) {
			next = x.f[i+1].m + x.shift
		}
		if a.two {
			for k+1 < len(y.f) && y.f[k+1].m+y.shift <= m {
				k++
			}
			t += y.f[k].t
			if k+1 < len(y.f) {
				next = min(next, y.f[k+1].m+y.shift)
			}
		}
		for e+1 < len(known) && known[e+1].m <= m {
			e++
		}
		if e < 0 || t < known[e].t {
			out = append(out, step{m, t})
		}
		if next == math.MaxInt64 {
			break
		}
		m = next
	}
	w.candidate = out
	w.add(out)
}

// result is a copy of the envelope, cut to its first step with leastOnly.
func (w *merger) result(leastOnly bool) front {
	if leastOnly && len(w.envelope) > 1 {
		w.envelope = w.envelope[:1]
	}
	return append(front(nil), w.envelope...)
}

// value is the alternative's time with m bytes; ok is false if they do not suffice.
func (a *alternative) value(m int64) (t int64, ok bool) {
	if m < a.least {
		return 0, false
	}
	t, ok = a.parts[0].f.time(m - a.parts[0].shift)
	if ok && a.two {
		var u int64
		u, ok = a.parts[1].f.time(m - a.parts[1].shift)
		t += u
	}
	return t + a.time, ok
}
