package report

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-analyze/charts/chartdraw"
	"github.com/go-analyze/charts/chartdraw/drawing"

	"ckptplan/internal/study"
	"ckptplan/internal/unit"
)

// PlotFormats are the endings of files that a plot can be written to.
var PlotFormats = []string{".svg", ".png"}

// Colours of the frontier, of the named strategies and of the budget.
var frontierColor, namedColor, budgetColor = drawing.ColorFromHex("1f77b4"), drawing.ColorFromHex("d62728"), drawing.ColorFromHex("333333")

// Plot draws the frontier as SVG or PNG, by the file's ending: peaks in GiB against extra compute, the named strategies
// and the budget on it.
func Plot(f *study.Frontier, file string) ([]byte, error) {
	stair, marks := stair(f), marksOf(f)
	x, y := append(marks.XValues, stair.XValues...), append(marks.YValues, stair.YValues...)
	series := []chartdraw.Series{stair, marks}
	if f.TensorBudget > 0 {
		b := gib(f.TensorBudget)
		x = append(x, b)
		series = append(series, chartdraw.ContinuousSeries{
			Name: "budget for tensors", XValues: []float64{b, b}, YValues: []float64{0, slices.Max(y)}, YAxis: leftAxis,
			Style: chartdraw.Style{StrokeColor: budgetColor, StrokeWidth: 1, StrokeDashArray: []float64{5, 4}},
		})
	}
	left, right, top := slices.Min(x), slices.Max(x), slices.Max(y)
	series = append(series, labels(f, marks, right-left, top))
	grid := chartdraw.Style{StrokeColor: chartdraw.ColorLightGray, StrokeWidth: 0.5}
	c := chartdraw.Chart{
		Title:      fmt.Sprintf("%s, micro batch %d, sequence length %d, %s", f.Model.Name, f.Model.Batch, f.Model.Seq, f.GPU.Name),
		TitleStyle: chartdraw.Style{FontStyle: chartdraw.FontStyle{FontSize: 12}},
		Width:      960, Height: 600,
		Background: chartdraw.Style{Padding: chartdraw.NewBox(80, 20, 20, 20)},
		XAxis:      chartdraw.XAxis{Name: "peak (GiB of tensors)", Ticks: roundTicks(left, right), GridMajorStyle: grid},
		YAxis:      chartdraw.YAxis{Style: chartdraw.Hidden(), Range: &chartdraw.ContinuousRange{Max: 1}}, // nothing is drawn on it
		YAxisSecondary: chartdraw.YAxis{
			Name: "extra compute (% of the step)", Ticks: roundTicks(0, top), GridMajorStyle: grid,
		},
		Series: series,
	}
	c.Elements = []chartdraw.Renderable{chartdraw.LegendThin(&c)}
	format := chartdraw.SVG
	if strings.EqualFold(filepath.Ext(file), ".png") {
		format = chartdraw.PNG
	}
	var b bytes.Buffer
	err := c.Render(format, &b)
	return b.Bytes(), err
}

// leftAxis is where the library draws its second vertical axis; the first is at the right.
const leftAxis = chartdraw.YAxisSecondary

// roundTicks are about eight round values, the first at most low and the last at least high.
func roundTicks(low, high float64) []chartdraw.Tick {
	step := math.Pow(10, math.Floor(math.Log10(max(high-low, 1e-3)/8)))
	for _, times := range []float64{2, 2.5, 2} { // 1, 2, 5 and 10 times a power of ten
		if (high-low)/step > 8 {
			step *= times
		}
	}
	var ticks []chartdraw.Tick
	for i := math.Floor(low / step); len(ticks) < 2 || ticks[len(ticks)-1].Value < high; i++ {
		ticks = append(ticks, chartdraw.Tick{Value: i * step, Label: strconv.FormatFloat(i*step, 'g', 4, 64)})
	}
	return ticks
}

// marksOf are the points of the named strategies.
func marksOf(f *study.Frontier) chartdraw.ContinuousSeries {
	s := chartdraw.ContinuousSeries{YAxis: leftAxis, Style: chartdraw.Style{DotColor: namedColor, DotWidth: 3.5, StrokeWidth: chartdraw.Disabled}}
	for _, n := range f.Named {
		s.XValues, s.YValues = append(s.XValues, gib(n.PeakBytes)), append(s.YValues, 100*n.RecomputeOverhead)
	}
	return s
}

// labels name the strategies at their marks, moved up from labels that they would cover. width and height are the plot's.
func labels(f *study.Frontier, marks chartdraw.ContinuousSeries, width, height float64) chartdraw.AnnotationSeries {
	l := chartdraw.AnnotationSeries{YAxis: leftAxis, Style: chartdraw.Style{FontStyle: chartdraw.FontStyle{FontSize: 8}, StrokeColor: namedColor, Padding: chartdraw.NewBox(2, 2, 2, 2)}}
	for i, n := range f.Named {
		x, y := marks.XValues[i], marks.YValues[i]
		for _, other := range l.Annotations {
			if math.Abs(x-other.XValue) < width/8 && math.Abs(y-other.YValue) < height/24 {
				y = other.YValue + height/24
			}
		}
		l.Annotations = append(l.Annotations, chartdraw.Value2{XValue: x, YValue: y, Label: n.Strategy})
	}
	return l
}

// stair is the frontier as a falling stair: a peak buys the time of the last point below it.
func stair(f *study.Frontier) chartdraw.ContinuousSeries {
	s := chartdraw.ContinuousSeries{Name: "fastest flat plan", YAxis: leftAxis, Style: chartdraw.Style{StrokeColor: frontierColor, StrokeWidth: 2}}
	at := func(x unit.Bytes, y float64) {
		s.XValues, s.YValues = append(s.XValues, gib(x)), append(s.YValues, 100*y)
	}
	for i, p := range f.Points {
		if i > 0 {
			at(p.PeakBytes, f.Points[i-1].RecomputeOverhead)
		}
		at(p.PeakBytes, p.RecomputeOverhead)
	}
	return s
}

func gib(b unit.Bytes) float64 { return float64(b) / float64(unit.GiB) }

// Size of a plot in characters, without its axes.
const plotWidth, plotHeight = 64, 14

// sketch is the frontier in characters: a stair of extra compute over peak, a letter for each named strategy. It is
// nil for a single point.
func sketch(f *study.Frontier) *Table {
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
		if p := f.Within(first + (last-first)*unit.Bytes(x+1)/plotWidth); p != nil {
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
			label = unit.Percent(100 * top)
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
