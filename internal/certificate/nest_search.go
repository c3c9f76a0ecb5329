package certificate

import (
	"cmp"
	"context"
	"slices"
)

// stair is a step of the least time as a function of memory: with room bytes or more, time nanoseconds are enough.
type stair struct{ room, time int64 }

// stairs are the steps from the most room, and least time, down. With less room than the last step has, no plan fits.
type stairs []stair

// reach is a part of a nest's problem: bring the gradient back over stages first…last, up to so many forwards of each
// (0: no limit), with the input of first alive and not counted. If last is the head, the head runs at the turn.
type reach struct{ first, last, forwards int }

// nestSearch finds the least time of a nest, reach by reach, the longest asked first.
type nestSearch struct {
	ctx       context.Context
	n         *nest
	room      int64 // most that any reach can have
	alike     [][]int
	gradients []int64 // by stage: parameter gradients of those behind it, the head's included
	found     map[reach]stairs
	walked    int64 // steps looked at
	most      int64 // of them, before the search stops
}

// leastTime finds the least time of all plans of the nest whose peak is at most limit. found is false if there is none,
// complete is false if that takes more than so many steps.
//
// With F(s…t) the time that brings the gradient back over stages s…t, as a function of the bytes above the input of s,
// a plan of s…t begins in one of two ways:
//
//	keep s           F(s+1…t), with ā_s bytes less
//	checkpoint s…j   F(j+1…t), with a_j bytes less, and then F(s…j), with the parameter gradients of j+1…t less
//
// and needs at least what its own forward and the backward of a stage kept need beside. The function of a reach is the
// lower envelope of both over all ways and all j. It is asked for from the whole chain down and remembered for stages
// with the same numbers, so that equal layers share it. It is exact: it rounds no number and drops only
// steps that need more bytes than there are.
func leastTime(ctx context.Context, n *nest, limit, most int64) (outcome, error) {
	s := &nestSearch{ctx: ctx, n: n, room: limit - n.base - n.input, alike: n.firstAlike(), found: map[reach]stairs{}, most: most}
	s.gradients = make([]int64, len(n.stages)+1)
	s.gradients[len(n.stages)] = 0
	sum := n.head.grad
	for i := len(n.stages) - 1; i >= 0; i-- {
		s.gradients[i] = sum
		sum += n.stages[i].params
	}
	out := outcome{complete: true}
	if n.floor > limit {
		return out, nil
	}
	f, err := s.over(reach{0, len(n.stages), n.forwards})
	out.labels, out.complete = s.walked, s.walked <= s.most
	if err == nil && out.complete && len(f) > 0 {
		out.found, out.time = true, f[0].time
	}
	return out, err
}

// firstAlike gives for every stage and length the first stage from which as many stages have the same numbers.
func (n *nest) firstAlike() [][]int {
	same := func(a, b *stage) bool {
		return a.out == b.out && a.grad == b.grad && a.params == b.params && slices.Equal(a.ways, b.ways)
	}
	count := len(n.stages)
	out := make([][]int, count)
	for i := range out {
		out[i] = make([]int, count-i+1)
		for length := range out[i] {
			out[i][length] = i
		}
	}
	// long[k] is for how many stages i+k… go on like k…; walked from the end for each distance between the two
	for distance := 1; distance < count; distance++ {
		run := 0
		for k := count - distance - 1; k >= 0; k-- {
			if same(&n.stages[k], &n.stages[k+distance]) {
				run++
			} else {
				run = 0
			}
			for length := 1; length <= run; length++ {
				out[k+distance][length] = min(out[k+distance][length], k)
			}
		}
	}
	return out
}

// over is the least time of a reach.
func (s *nestSearch) over(r reach) (stairs, error) {
	head := r.last == len(s.n.stages)
	length := r.last - r.first + 1
	if !head {
		r.first = s.alike[r.first][length]
		r.last = r.first + length - 1
	}
	if r.forwards > length {
		r.forwards = length + 1 // no list goes deeper
	}
	if f, ok := s.found[r]; ok {
		return f, nil
	}
	if err := s.ctx.Err(); err != nil {
		return nil, err
	}
	e := &envelope{}
	switch {
	case head && length == 1:
		e.add(stair{max(s.n.head.fwd, s.n.head.bwd), s.n.head.time})
	case length == 1:
		g := &s.n.stages[r.first]
		for _, w := range g.ways {
			e.add(stair{g.grad + w.saved + max(w.fwdOver, w.bwdOver), w.forward - w.early + w.backward})
		}
	default:
		if err := s.begin(r, e); err != nil {
			return nil, err
		}
	}
	f := e.merge()
	for len(f) > 0 && f[0].room > s.room {
		f = f[1:]
	}
	f = slices.Clone(f)
	s.found[r] = f
	return f, nil
}

// begin walks through the ways in which a plan of a reach of several stages can begin.
func (s *nestSearch) begin(r reach, e *envelope) error {
	first := &s.n.stages[r.first]
	turn, behind := int64(0), s.gradients[r.first] // alive at the turn; parameter gradients of the stages behind first
	if r.last < len(s.n.stages) {
		turn = s.n.stages[r.last].grad
		behind -= s.gradients[r.last]
	}
	rest, err := s.over(reach{r.first + 1, r.last, r.forwards})
	if err != nil {
		return err
	}
	for _, w := range first.ways {
		least := w.saved + max(turn+w.fwdOver, first.grad+w.bwdOver+behind)
		s.join(e, joint{a: rest, underA: w.saved, least: least, time: w.forward + w.backward})
	}
	if r.forwards == 1 {
		return nil
	}
	var sweep, needs, before int64
	for j := r.first; j < r.last; j++ {
		g := &s.n.stages[j]
		w := g.passing()
		needs = max(needs, turn+before+g.out+w.fwdOver)
		if before = g.out; needs > s.room {
			return nil
		}
		sweep += w.forward
		behind := s.gradients[j]
		if r.last < len(s.n.stages) {
			behind -= s.gradients[r.last]
		}
		after, err := s.over(reach{j + 1, r.last, r.forwards})
		if err != nil {
			return err
		}
		inside, err := s.over(reach{r.first, j, max(0, r.forwards-1)})
		if err != nil {
			return err
		}
		s.join(e, joint{a: after, underA: g.out, b: inside, underB: behind, two: true, least: needs, time: sweep})
		if s.walked > s.most {
			return nil
		}
	}
	return nil
}

// joint is a way to begin: what follows needs a and b, one after the other, above so many bytes, all of it at least
// least bytes and time nanoseconds beside.
type joint struct {
	a, b           stairs
	underA, underB int64
	two            bool // b is used
	least, time    int64
}

// join goes down the stairs of both parts together and adds every step to the envelope.
func (s *nestSearch) join(e *envelope, x joint) {
	if len(x.a) == 0 || x.two && len(x.b) == 0 {
		return
	}
	i, k := startBelow(x.a, s.room-x.underA), 0
	if x.two {
		k = startBelow(x.b, s.room-x.underB)
	}
	e.fromTop()
	for i < len(x.a) && (!x.two || k < len(x.b)) {
		s.walked++
		at := stair{max(x.least, x.a[i].room+x.underA), x.time + x.a[i].time}
		if x.two {
			at.room = max(at.room, x.b[k].room+x.underB)
			at.time += x.b[k].time
		}
		if at.room <= s.room {
			e.offer(at)
		}
		if at.room == x.least {
			return // less room is not enough
		}
		// the part whose step this is goes down
		stepA := x.a[i].room+x.underA == at.room
		if x.two && x.b[k].room+x.underB == at.room {
			k++
		}
		if stepA {
			i++
		}
	}
}

// startBelow is the first step that has at most so much room.
func startBelow(f stairs, room int64) int {
	i, _ := slices.BinarySearchFunc(f, room, func(x stair, room int64) int { return cmp.Compare(room, x.room) })
	return i
}

// envelope collects steps. merged is their lower envelope as of the last merge; loose are the steps since then that it
// does not already beat.
type envelope struct {
	merged, loose stairs
	at            int // in merged, while steps come from the top down
}

func (e *envelope) add(x stair) { e.loose = append(e.loose, x) }

// fromTop begins a series of offers with falling room.
func (e *envelope) fromTop() {
	if len(e.loose) > 256+4*len(e.merged) {
		e.merge()
	}
	e.at = 0
}

// offer adds a step unless a merged one needs no more room and no more time.
func (e *envelope) offer(x stair) {
	for e.at < len(e.merged) && e.merged[e.at].room > x.room {
		e.at++
	}
	if e.at == len(e.merged) || e.merged[e.at].time > x.time {
		e.loose = append(e.loose, x)
	}
}

// merge folds the loose steps into the lower envelope and returns it, from the top down.
func (e *envelope) merge() stairs {
	all := append(e.loose, e.merged...)
	slices.SortFunc(all, func(a, b stair) int {
		return cmp.Or(cmp.Compare(a.room, b.room), cmp.Compare(a.time, b.time))
	})
	kept := all[:0]
	for _, x := range all {
		if len(kept) == 0 || x.time < kept[len(kept)-1].time {
			kept = append(kept, x)
		}
	}
	slices.Reverse(kept)
	e.merged = append(e.merged[:0], kept...)
	e.loose = e.loose[:0]
	return e.merged
}
