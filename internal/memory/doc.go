// Package memory says how many bytes of device memory a training step needs, at which instant, and what holds them. It is
// the only judge of a peak: solvers, reports and checkers ask it.
//
// A step passes through these stages:
//
//   - Compile (program.go) makes a graph ready to be walked, whatever the plan: what each op allocates, what autograd keeps
//     of it, after which op a local is freed; and the tape (tape.go, backward.go), what autograd's engine does in backward.
//   - Lower (schedule.go) turns a plan into regions of ops, each one checkpoint, and a step into passes (passes.go):
//     forward and backward of each micro batch, then the optimizer.
//   - Simulate (timeline.go) walks the passes op by op (simulate.go, recompute.go, overlap.go, optimizer.go) and counts references to
//     storages as PyTorch does. Every allocation goes through the machine's alloc and every free through its
//     free (events.go): parameters when the model is constructed, the optimizer's state at its first step, gradients when
//     backward makes them. There bytes are counted and peaks found (peak.go). The second step is walked, the steady state.
//   - Observers see the same events: they find what holds the peak (breakdown.go, owners.go) and each block's part of the
//     step (profile.go). Observe passes the events to any other observer, from the first parameter on.
//   - Times (cost.go) come from a card's data sheet.
//
// The rules of autograd are cited where they are used. Package model's op table says what an op
// saves and what its backward makes; package optimizer says what an optimizer makes.
package memory
