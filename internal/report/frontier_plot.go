package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"ckptplan/internal/unit"
)

// PlotFormats are the endings of files that a plot can be written to.
var PlotFormats = []string{".svg", ".png"}

// Plot draws the frontier as SVG or PNG, by the file's ending: peaks in GiB against extra compute, the named strategies
// and the budget on it.
func (f *Frontier) Plot(file string) ([]byte, error) {
	p := plot.New()
	p.Title.Text = fmt.Sprintf("%s, micro batch %d, sequence length %d, %s", f.Model.Name, f.Model.Batch, f.Model.Seq, f.GPU.Name)
	p.X.Label.Text, p.Y.Label.Text = "peak (GiB of tensors)", "extra compute (% of the step)"
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	line, err := plotter.NewLine(f.steps())
	if err != nil {
		return nil, err
	}
	line.Color, line.Width = color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}, vg.Points(1.5)
	p.Add(line)
	p.Legend.Add("fastest flat plan", line)
	var marks plotter.XYs
	for _, n := range f.Named {
		marks = append(marks, plotter.XY{X: gib(n.PeakBytes), Y: 100 * n.RecomputeOverhead})
	}
	points, err := plotter.NewScatter(marks)
	if err != nil {
		return nil, err
	}
	points.GlyphStyle = draw.GlyphStyle{Color: color.RGBA{R: 0xd6, G: 0x27, B: 0x28, A: 0xff}, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}}
	p.Add(points)
	p.X.Min, p.Y.Min = min(p.X.Min, gib(f.Points[0].PeakBytes)), 0
	labels, err := plotter.NewLabels(f.labels(marks, p.X.Max-p.X.Min, p.Y.Max))
	if err != nil {
		return nil, err
	}
	p.Add(labels)
	p.Legend.Add("named strategy", points)
	if f.TensorBudget > 0 {
		x := gib(f.TensorBudget)
		budget, err := plotter.NewLine(plotter.XYs{{X: x, Y: 0}, {X: x, Y: p.Y.Max}})
		if err != nil {
			return nil, err
		}
		budget.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		p.Add(budget)
		p.Legend.Add("budget for tensors", budget)
	}
	p.X.Max += (p.X.Max - p.X.Min) / 5 // room for the labels on the right
	canvas, err := p.WriterTo(16*vg.Centimeter, 10*vg.Centimeter, strings.TrimPrefix(strings.ToLower(filepath.Ext(file)), "."))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = canvas.WriteTo(&b)
	return b.Bytes(), err
}

// labels name the strategies at their marks, moved up from labels that they would cover. width and height are the plot's.
func (f *Frontier) labels(marks plotter.XYs, width, height float64) plotter.XYLabels {
	var l plotter.XYLabels
	for i, at := range marks {
		for _, other := range l.XYs {
			if math.Abs(at.X-other.X) < width/8 && math.Abs(at.Y-other.Y) < height/24 {
				at.Y = other.Y + height/24
			}
		}
		l.XYs, l.Labels = append(l.XYs, at), append(l.Labels, "  "+f.Named[i].Strategy)
	}
	return l
}

// steps is the frontier as a falling stair: a peak buys the time of the last point below it.
func (f *Frontier) steps() plotter.XYs {
	var xy plotter.XYs
	for i, p := range f.Points {
		if i > 0 {
			xy = append(xy, plotter.XY{X: gib(p.PeakBytes), Y: 100 * f.Points[i-1].RecomputeOverhead})
		}
		xy = append(xy, plotter.XY{X: gib(p.PeakBytes), Y: 100 * p.RecomputeOverhead})
	}
	return xy
}

func gib(b unit.Bytes) float64 { return float64(b) / float64(unit.GiB) }

// Size of a plot in characters, without its axes.
const plotWidth, plotHeight = 64, 14

// plot draws the frontier with characters: a stair of extra compute over peak, a letter for each named strategy. It is
// nil for a single point.
func (f *Frontier) plot() *Table {
	first, last := f.Points[0].PeakBytes, f.Points[len(f.Points)-1].PeakBytes
	top := f.Points[0].RecomputeOverhead
	for _, n := range f.Named {
		first, last, top = min(first, n.PeakBytes), max(last, n.PeakBytes), max(top, n.RecomputeOverhead)
	}
	if first == last || top == 0 {
		return nil
	}
	var grid [plotHeight][plotWidth]rune
	for y := range grid {
		for x := range grid[y] {
			grid[y][x] = ' '
		}
	}
	column := func(b unit.Bytes) int { return int(int64(plotWidth-1) * int64(b-first) / int64(last-first)) }
	row := func(extra float64) int { return plotHeight - 1 - int(math.Round(float64(plotHeight-1)*extra/top)) }
	for x := range plotWidth { // the point that the right end of a column affords
		if p := f.within(first + (last-first)*unit.Bytes(x+1)/plotWidth); p != nil {
			grid[row(p.RecomputeOverhead)][x] = '▪'
		}
	}
	if b := f.TensorBudget; b >= first && b <= last {
		for y := range grid {
			if grid[y][column(b)] == ' ' {
				grid[y][column(b)] = '┊'
			}
		}
	}
	var key []string
	for i := range f.Named {
		n := &f.Named[i]
		letter := rune('A' + i)
		grid[row(n.RecomputeOverhead)][column(n.PeakBytes)] = letter
		key = append(key, fmt.Sprintf("%c %s", letter, n.Strategy))
	}
	t := &Table{Title: "extra compute over peak (▪ the fastest flat plan)"}
	for y := range grid {
		label := ""
		switch y {
		case 0:
			label = percent(100 * top)
		case plotHeight - 1:
			label = "0 %"
		}
		t.Drawing = append(t.Drawing, strings.TrimRight(fmt.Sprintf("%7s │%s", label, string(grid[y][:])), " "))
	}
	scale := unit.CommonScale(first, last)
	left, right := scale.Format(first)+" "+scale.Unit, scale.Format(last)+" "+scale.Unit
	t.Drawing = append(t.Drawing,
		fmt.Sprintf("%7s └%s", "", strings.Repeat("─", plotWidth)),
		fmt.Sprintf("%8s %s%*s", "", left, plotWidth-len(left), right))
	t.Notes = []string{strings.Join(key, ", ")}
	if f.TensorBudget >= first && f.TensorBudget <= last {
		t.Notes[0] += ", ┊ the budget for tensors"
	}
	return t
}
