package console

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// A chart is one plot as SVG text, drawn on the server: no script makes it and nothing is
// loaded for it. What it says it says without colour too: by shape, hatching and words
// beside the lines. What is not known is a hole in a line or a hatched span, never a zero.
// Make one with newChart, put marks on it, and take its SVG.
type chart struct {
	id, title, desc string
	width, height   int
	x, y            axis
	left, right     int
	top, bottom     int
	body            strings.Builder
}

// axis is one direction of a chart. Ticks outside of it are left out.
type axis struct {
	label    string
	min, max float64
	log      bool // decades; min is above 0
	ticks    []tick
}

type tick struct {
	at   float64
	text string
}

// point is a place on a chart; one with NaN in it is a hole.
type point struct{ x, y float64 }

const (
	chartLine = 16  // pixels between two texts
	chartChar = 6.7 // width of a letter, about
)

// newChart begins a plot of so many pixels. The id is the chart's alone on its page; title
// and desc are read out to who does not see it, and desc holds the numbers that matter.
func newChart(id, title, desc string, width, height int, x, y axis) *chart {
	c := &chart{id: id, title: title, desc: desc, width: width, height: height, x: x, y: y, right: 18, top: 14, bottom: 44}
	longest := 0
	for _, t := range y.ticks {
		longest = max(longest, len([]rune(t.text)))
	}
	c.left = 14 + int(float64(longest)*chartChar)
	if y.label != "" {
		c.top += chartLine
	}
	c.axes()
	return c
}

// on is where a value stands on the axis, from 0 to 1, held to its ends.
func (a axis) on(v float64) float64 {
	low, high := a.min, a.max
	if a.log {
		v, low, high = math.Log10(max(v, a.min)), math.Log10(a.min), math.Log10(a.max)
	}
	if high <= low {
		return 0
	}
	return max(0, min(1, (v-low)/(high-low)))
}

func (c *chart) px(x float64) float64 {
	return float64(c.left) + c.x.on(x)*float64(c.width-c.left-c.right)
}

func (c *chart) py(y float64) float64 {
	return float64(c.height-c.bottom) - c.y.on(y)*float64(c.height-c.bottom-c.top)
}

// draw adds an element; the values are numbers or texts of ours, what people wrote goes
// through word.
func (c *chart) draw(format string, args ...any) { fmt.Fprintf(&c.body, format+"\n", args...) }

// word adds a text, escaped.
func (c *chart) word(x, y float64, class, anchor, text string) {
	c.draw(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, template.HTMLEscapeString(text))
}

func (c *chart) axes() {
	low, high := float64(c.height-c.bottom), float64(c.top)
	for _, t := range c.y.ticks {
		if t.at < c.y.min || t.at > c.y.max {
			continue
		}
		y := c.py(t.at)
		c.draw(`<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" class="grid"/>`, c.left, y, c.width-c.right, y)
		c.word(float64(c.left-6), y+4, "tick", "end", t.text)
	}
	after := math.Inf(-1)
	for _, t := range c.x.ticks {
		x, half := c.px(t.at), float64(len([]rune(t.text)))*chartChar/2
		if t.at < c.x.min || t.at > c.x.max {
			continue
		}
		c.draw(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="axis"/>`, x, low, x, low+5)
		at := max(half, min(x, float64(c.width)-half))
		if at-half < after+4 { // it would run into the one before
			continue
		}
		c.word(at, low+17, "tick", "middle", t.text)
		after = at + half
	}
	c.draw(`<path d="M%d %.1fV%.1fH%d" class="axis"/>`, c.left, high, low, c.width-c.right)
	if c.y.label != "" {
		c.word(4, float64(c.top-8), "label", "start", c.y.label)
	}
	if c.x.label != "" {
		c.word(float64(c.width-c.right), float64(c.height-6), "label", "end", c.x.label)
	}
}

// path writes points as lines, broken at holes.
func (c *chart) path(points []point) string {
	var b strings.Builder
	pen := "M"
	for _, p := range points {
		if math.IsNaN(p.x) || math.IsNaN(p.y) {
			pen = "M"
			continue
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", pen, c.px(p.x), c.py(p.y))
		pen = "L"
	}
	return b.String()
}

// line draws points joined by lines, and its name behind the last of them.
func (c *chart) line(class, name string, points []point) {
	c.draw(`<path d="%s" class="%s"/>`, c.path(points), class)
	for i := len(points) - 1; i >= 0 && name != ""; i-- {
		if p := points[i]; !math.IsNaN(p.x) && !math.IsNaN(p.y) {
			c.word(c.px(p.x)-6, c.py(p.y)-6, "name", "end", name)
			return
		}
	}
}

// band fills between two lines with as many points.
func (c *chart) band(class string, low, high []point) {
	points := make([]point, 0, len(low)+len(high))
	points = append(points, high...)
	for i := len(low) - 1; i >= 0; i-- {
		points = append(points, low[i])
	}
	if len(points) > 0 {
		c.draw(`<path d="%sZ" class="%s"/>`, c.path(points), class)
	}
}

// dumbbell draws how many there were, as a hollow ring, and how many are left, as a full
// dot below it; a cross on the axis is none left.
func (c *chart) dumbbell(x, were, left float64, text string) {
	at, top, low := c.px(x), c.py(were), float64(c.height-c.bottom)
	if left > 0 {
		low = c.py(left)
	}
	c.draw(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="stem"/>`, at, top, at, low)
	c.draw(`<circle cx="%.1f" cy="%.1f" r="5" class="ring"/>`, at, top)
	if left > 0 {
		c.draw(`<circle cx="%.1f" cy="%.1f" r="3.5" class="dot"/>`, at, low)
	} else {
		c.draw(`<path d="M%.1f %.1fl8 8m0 -8l-8 8" class="cross"/>`, at-4, low-4)
	}
	c.word(at, top-9, "name", "middle", text)
}

// span draws a stretch of a row, of which there are Y.max: full is a fact, hatched is what
// nobody knows.
func (c *chart) span(row int, from, to float64, kind, hint string) {
	unit := float64(c.height-c.bottom-c.top) / max(1, c.y.max)
	y, x := float64(c.top)+unit*float64(row), c.px(from)
	width := max(1, c.px(to)-x)
	fill := ""
	if kind == "unknown" {
		fill = ` fill="url(#` + c.id + `-hatch)"`
	}
	c.draw(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="span %s"%s><title>%s</title></rect>`, x, y+unit*0.2, width, unit*0.6, kind, fill, template.HTMLEscapeString(hint))
}

// rowName writes the name of a span's row at its left.
func (c *chart) rowName(row int, name string) {
	unit := float64(c.height-c.bottom-c.top) / max(1, c.y.max)
	c.word(float64(c.left-8), float64(c.top)+unit*(float64(row)+0.5)+4, "name", "end", name)
}

// spanName writes a name into a span, where it has room for it.
func (c *chart) spanName(row int, from, to float64, name string) {
	unit := float64(c.height-c.bottom-c.top) / max(1, c.y.max)
	if float64(len([]rune(name)))*chartChar+8 < c.px(to)-c.px(from) {
		c.word(c.px(from)+5, float64(c.top)+unit*(float64(row)+0.5)+4, "tick", "start", name)
	}
}

// bar is a share as a bar of its own: full what is left, hatched what of it is uncertain.
func shareBar(id string, left, uncertain, all int64, words string) template.HTML {
	const width = 120.0
	if all < 1 {
		return ""
	}
	part := func(n int64) float64 { return width * float64(max(0, min(n, all))) / float64(all) }
	sure := part(left - uncertain)
	return template.HTML(fmt.Sprintf(`<svg class="share" width="122" height="12" viewBox="0 0 122 12" role="img" aria-label="%s"><defs>%s</defs><rect x="1" y="1" width="120" height="10" class="frame"/><rect x="1" y="1" width="%.1f" height="10" class="left"/><rect x="%.1f" y="1" width="%.1f" height="10" class="span unknown" fill="url(#%s-hatch)"/></svg>`,
		template.HTMLEscapeString(words), hatch(id), sure, 1+sure, part(left)-sure, id)) // numbers, an id of ours and an escaped text
}

func hatch(id string) string {
	return `<pattern id="` + id + `-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line x1="0" y1="0" x2="0" y2="6" class="hatch"/></pattern>`
}

// SVG is the finished plot.
func (c *chart) SVG() template.HTML {
	return template.HTML(fmt.Sprintf(`<svg class="chart" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-labelledby="%s-t %s-d"><title id="%s-t">%s</title><desc id="%s-d">%s</desc><defs>%s</defs>
%s</svg>`, c.width, c.height, c.width, c.height, c.id, c.id, c.id, template.HTMLEscapeString(c.title), c.id, template.HTMLEscapeString(c.desc), hatch(c.id), &c.body)) // all texts in it went through word
}

// niceAxis covers 0 to a highest value with a handful of round ticks.
func niceAxis(label string, highest float64, text func(float64) string) axis {
	if !(highest > 0) || math.IsInf(highest, 0) {
		highest = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(highest/4)))
	for _, k := range []float64{1, 2, 5, 10} {
		if highest/(step*k) <= 5 {
			step *= k
			break
		}
	}
	a := axis{label: label, max: step * math.Ceil(highest/step)}
	for n := 0.0; n*step <= a.max*1.0001; n++ {
		a.ticks = append(a.ticks, tick{n * step, text(n * step)})
	}
	return a
}

// decades covers positive values with a tick at each power of ten.
func decades(label string, lowest, highest float64, text func(float64) string) axis {
	low := math.Floor(math.Log10(max(lowest, 1e-9)))
	high := max(low+1, math.Ceil(math.Log10(max(highest, 1e-9))))
	a := axis{label: label, min: math.Pow(10, low), max: math.Pow(10, high), log: true}
	for e := low; e <= high; e++ {
		a.ticks = append(a.ticks, tick{math.Pow(10, e), text(math.Pow(10, e))})
	}
	return a
}

// days covers two instants with ticks at midnights, as many as fit.
func days(from, to time.Time, zone *time.Location, most int) axis {
	a := axis{min: float64(from.Unix()), max: float64(to.Unix())}
	first := from.In(zone)
	step := max(1, int(math.Ceil(to.Sub(from).Hours()/24/float64(max(1, most)))))
	for d := time.Date(first.Year(), first.Month(), first.Day()+1, 0, 0, 0, 0, zone); !d.After(to); d = d.AddDate(0, 0, step) {
		a.ticks = append(a.ticks, tick{float64(d.Unix()), d.Format("02/01")})
	}
	return a
}

// count writes a number with its thousands apart by narrow spaces, as every table does.
func count(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return sign + text
}
