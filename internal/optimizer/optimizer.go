// Package optimizer says what PyTorch's optimizers keep and make: one row each. To add one, add its row here, its name to
// the training step of the torch engine (internal/exec/torch/runner/step.py) and, if the host engine should run it, its arithmetic in
// internal/exec/interpreter/optimizer.go.
package optimizer

import (
	"fmt"
	"slices"
	"strings"
)

// Row describes an optimizer.
type Row struct {
	Name    string
	Aliases []string // other programs' names
	Form    string   // of its kernels, where the name does not say it
	Rule    string   // its arithmetic, by which an engine knows it
	// State are the ATen calls that make the tensors that it keeps of each trained parameter from its first step on, in the
	// parameter's shape and dtype unless Size says otherwise. Beside them it keeps Counter bytes a parameter, the step
	// count, and Shared.
	State   []string
	Counter int64
	// Size is how many bytes state tensor k of a parameter with that many elements has; 0: there is no such tensor. If it
	// is nil, each has as many as the parameter.
	Size   func(k int, elements int64) int64
	Shared Shared
	// AtOnce are the ATen calls that make a tensor like each parameter, of all parameters before any goes. OneByOne make
	// theirs for one parameter at a time; the last one's is a local until the next parameter's takes its place.
	AtOnce, OneByOne []string
	// Passes is how often an update crosses the memory bus, in reads and writes of a list of tensors like the parameters;
	// 0: there is no update.
	Passes int64
	// Leaner is an optimizer that computes the same with less memory.
	Leaner string
	// Words describe it as a change from another optimizer.
	Words string
}

// Shared is what all parameters of at least From elements use together.
type Shared struct{ Bytes, From int64 }

// StateBytes is how many bytes state tensor k has of a parameter with that many elements and bytes.
func (r *Row) StateBytes(k int, elements, bytes int64) int64 {
	if r.Size == nil {
		return bytes
	}
	return r.Size(k, elements)
}

// SGD keeps no state: the cost of another optimizer's state is the difference from it.
const SGD = "sgd"

// moments are two tensors like the parameter.
var moments = []string{"aten.zeros_like", "aten.zeros_like"}

// Rows are all optimizers; the first is the default.
//
// AdamW keeps exp_avg and exp_avg_sq, and a step count in fp32. Its foreach form (PyTorch's default) makes √exp_avg_sq of
// all parameters at once; the loop form makes a root and a quotient of one parameter while the last one's quotient is
// still a local; the fused kernel makes nothing. Foreach and loop run ten elementwise kernels (mul_, lerp_, mul_,
// addcmul_, sqrt, div_, add_, addcdiv_ and two on the step); the fused one reads parameter, gradient and two moments and
// writes three of them. SGD without momentum and weight decay adds the gradient; its momentum is one tensor, which two kernels
// read and write before the update. RMSprop keeps square_avg and a step count, and makes its root of all parameters at once
// (mul_, addcmul_, sqrt, add_, addcdiv_ and one on the step).
// Source: torch/optim/adamw.py, adam.py (_multi_tensor_adam, _single_tensor_adam), sgd.py, rmsprop.py.
//
// The 8-bit forms are bitsandbytes': see eight. Their kernel makes nothing, and the state that it crosses is a quarter of fp32.
var Rows = []Row{
	{Name: "adamw", Aliases: []string{"adamw-torch"}, Form: "foreach", Rule: "adamw", State: moments, Counter: 4, AtOnce: []string{"aten._foreach_sqrt"}, Passes: 20, Leaner: "adamw-fused"},
	{Name: "adamw-loop", Rule: "adamw", State: moments, Counter: 4, OneByOne: []string{"aten.sqrt", "aten.div"}, Passes: 20, Leaner: "adamw-fused"},
	{Name: "adamw-fused", Aliases: []string{"adamw-torch-fused"}, Rule: "adamw", State: moments, Counter: 4, Passes: 7, Words: "fused AdamW"},
	{Name: SGD, Rule: SGD, Passes: 3, Words: "SGD, which keeps no state but trains differently"},
	{Name: "sgd-momentum", Rule: "sgd-momentum", State: []string{"aten.clone"}, Passes: 8},
	{Name: "rmsprop", Rule: "rmsprop", State: moments[:1], Counter: 4, AtOnce: []string{"aten._foreach_sqrt"}, Passes: 14},
	{Name: "adamw-8bit", Aliases: []string{"adamw-bnb-8bit"}, Rule: "adamw-8bit", State: []string{"aten.zeros_like", "aten.zeros_like", "aten.zeros", "aten.zeros"}, Size: eight(2), Shared: Shared{2 * qmap, least8bit}, Passes: 5},
	{Name: "lion-8bit", Rule: "lion-8bit", State: []string{"aten.zeros_like", "aten.zeros"}, Size: eight(1), Shared: Shared{qmap, least8bit}, Passes: 4},
	{Name: "none"},
}

// Names of all optimizers.
func Names() []string {
	names := make([]string, len(Rows))
	for i := range Rows {
		names[i] = Rows[i].Name
	}
	return names
}

// Aliases are other programs' names and what they mean here.
func Aliases() map[string]string {
	out := map[string]string{}
	for i := range Rows {
		for _, a := range Rows[i].Aliases {
			out[a] = Rows[i].Name
		}
	}
	return out
}

// Lookup finds an optimizer by its name.
func Lookup(name string) (*Row, error) {
	if i := slices.IndexFunc(Rows, func(r Row) bool { return r.Name == name }); i >= 0 {
		return &Rows[i], nil
	}
	return nil, fmt.Errorf("optimizer %q is not one of %s", name, strings.Join(Names(), ", "))
}
