package chart

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// Sizes of drawings, in pixels at their natural size.
const (
	width        = 600.0
	marginLeft   = 68.0
	marginRight  = 18.0
	marginTop    = 30.0 // for the name of the vertical axis
	marginBottom = 44.0 // for ticks and name of the horizontal axis
	markPitch    = 16.0 // between the labels of marks, which are above the inside
	gap          = 26.0 // between the ticks of one frame and the next
	dotRadius    = 3.5
	aimRadius    = 9.0 // of the area around a point that shows its tip
)

// Frame is a pair of axes with lines.
type Frame struct {
	X, Y   Axis
	Height float64 // of the inside, in pixels
	Lines  []Line
	Goals  []Goal
	Marks  []Mark
}

// Line is one series of a frame.
type Line struct {
	Key    int  // of its entry in the legend
	Style  int  // colour and shape, below [Styles]
	Dashed bool // distinguishes it from a solid line of the same style
	Points []Point
	Band   []Between // the spread around the line
}

// Point is one value of a line.
type Point struct {
	X, Y   float64
	Tip    string // the text shown under the pointer; a point without is only part of the line
	Hollow bool   // distinguished from other points, as the caption says
	Bare   bool   // without a dot
}

// Between is the spread of a line at one place.
type Between struct{ X, Low, High float64 }

// Goal is a wanted value, drawn as a line across a frame.
type Goal struct {
	Y     float64
	Label string
}

// Mark is a highlighted place of the horizontal axis.
type Mark struct {
	Key, Style int
	X, Y       float64
	Label, Tip string
}

// Fit sets the ranges of the axes so that they show all values, with about the given numbers of ticks.
func (f *Frame) Fit(ticksX, ticksY int) {
	var xs, ys []float64
	for _, l := range f.Lines {
		for _, p := range l.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
		for _, b := range l.Band {
			xs, ys = append(xs, b.X), append(ys, b.Low, b.High)
		}
	}
	for _, g := range f.Goals {
		ys = append(ys, g.Y)
	}
	f.X.fit(xs, ticksX)
	f.Y.fit(ys, ticksY)
}

// canvas is the position of the inside of a frame in its drawing.
type canvas struct {
	*Frame
	left, right, top, bottom float64
}

// at returns the position of a point.
func (c *canvas) at(x, y float64) (px, py float64, ok bool) {
	px, okX := c.X.place(x, c.left, c.right)
	py, okY := c.Y.place(y, c.bottom, c.top)
	return px, py, okX && okY
}

// Draw returns a drawing of frames below each other. id is unique on its page. Only the last has the name of the horizontal
// axis, since it is the same for all.
func Draw(title, desc, id string, frames ...*Frame) template.HTML {
	y := 0.0
	var groups []*element
	for i, f := range frames {
		top := y + marginTop + markPitch*float64(len(f.Marks))
		c := &canvas{f, marginLeft, width - marginRight, top, top + f.Height}
		last := i == len(frames)-1
		groups = append(groups, c.draw(last))
		y = c.bottom + gap
		if last {
			y = c.bottom + marginBottom
		}
	}
	return drawing(title, desc, id, y).add(groups...).markup()
}

// drawing returns an empty drawing with a description.
func drawing(title, desc, id string, height float64) *element {
	return el("svg", "viewBox", fmt.Sprintf("0 0 %s %s", px(width), px(height)), "role", "img",
		"aria-labelledby", id+"-title "+id+"-desc", "data-height", height).add(
		el("title", "id", id+"-title").says(title), el("desc", "id", id+"-desc").says(desc))
}

func (c *canvas) draw(last bool) *element {
	g := el("g", "class", "frame", "data-left", c.left, "data-right", c.right, "data-top", c.top, "data-bottom", c.bottom)
	g.add(c.drawY(), c.drawX(last))
	for i := range c.Lines {
		g.add(c.drawLine(&c.Lines[i]))
	}
	if len(c.Goals) > 0 {
		g.add(c.drawGoals())
	}
	for i, m := range c.Marks {
		g.add(c.drawMark(m, i))
	}
	return g
}

func (c *canvas) drawY() *element {
	g := el("g", "class", "axis y")
	for _, t := range c.Y.ticks {
		_, y, ok := c.at(c.middleX(), t.value)
		if !ok {
			continue
		}
		g.add(el("line", "class", "grid", "x1", c.left, "x2", c.right, "y1", y, "y2", y),
			el("text", "class", "tick", "x", c.left-8, "y", y+4, "text-anchor", "end").says(t.label))
	}
	return g.add(el("text", "class", "name", "x", 2.0, "y", c.top-14-markPitch*float64(len(c.Marks))).says(c.Y.Label))
}

// middleX returns a value of the horizontal axis that can be drawn.
func (c *canvas) middleX() float64 {
	if len(c.X.ticks) == 0 {
		return 0
	}
	return c.X.ticks[0].value
}

func (c *canvas) drawX(named bool) *element {
	g := el("g", "class", "axis x").add(el("line", "class", "base", "x1", c.left, "x2", c.right, "y1", c.bottom, "y2", c.bottom))
	for _, t := range c.X.ticks {
		x, ok := c.X.place(t.value, c.left, c.right)
		if !ok {
			continue
		}
		g.add(el("line", "class", "base", "x1", x, "x2", x, "y1", c.bottom, "y2", c.bottom+4),
			el("text", "class", "tick", "x", x, "y", c.bottom+18, "text-anchor", anchor(x, c.right)).says(t.label))
	}
	if named {
		g.add(el("text", "class", "name", "x", c.right, "y", c.bottom+38, "text-anchor", "end").says(c.X.Label))
	}
	return g
}

// anchor returns the anchor that keeps the label of the last tick within the drawing.
func anchor(x, right float64) string {
	if x > right-12 {
		return "end"
	}
	return "middle"
}

func (c *canvas) drawLine(l *Line) *element {
	class := fmt.Sprintf("line s%d", l.Style)
	if l.Dashed {
		class += " dashed"
	}
	g := el("g", "class", class, "data-key", l.Key)
	if band := c.drawBand(l.Band); band != nil {
		g.add(band)
	}
	var stroke path
	dots := el("g", "class", "dots")
	for _, p := range l.Points {
		x, y, ok := c.at(p.X, p.Y)
		if !ok {
			continue
		}
		stroke.to(x, y)
		if p.Tip == "" {
			continue
		}
		dot := el("g", "class", "dot").tip(p.Tip)
		if p.Hollow {
			dot = el("g", "class", "dot hollow").tip(p.Tip)
		}
		if !p.Bare {
			dot.add(shape(l.Style, x, y))
		}
		dots.add(dot.add(el("circle", "class", "aim", "cx", x, "cy", y, "r", aimRadius)))
	}
	if first, _, more := strings.Cut(stroke.String(), "L"); !more && first != "" {
		stroke.WriteString("L" + first[1:]) // the round ends of a line without a length are a dot
	}
	if stroke.Len() > 0 {
		g.add(el("path", "class", "stroke", "d", stroke.String()))
	}
	return g.add(dots)
}

func (c *canvas) drawBand(band []Between) *element {
	var outline path
	for _, b := range band {
		if x, y, ok := c.at(b.X, b.High); ok {
			outline.to(x, y)
		}
	}
	for i := len(band) - 1; i >= 0; i-- {
		if x, y, ok := c.at(band[i].X, band[i].Low); ok {
			outline.to(x, y)
		}
	}
	if outline.Len() == 0 {
		return nil
	}
	return el("path", "class", "band", "d", outline.String()+"Z")
}

// drawMark draws a line from the label of a mark to the bottom. Labels of several marks are below each
// other.
func (c *canvas) drawMark(m Mark, nth int) *element {
	x, y, ok := c.at(m.X, m.Y)
	g := el("g", "class", fmt.Sprintf("mark s%d", m.Style), "data-key", m.Key)
	if !ok {
		return g
	}
	textX, side := x+7, "start"
	if x > (c.left+c.right)/2 {
		textX, side = x-7, "end"
	}
	row := c.top - markPitch*float64(len(c.Marks)-nth) + 6
	return g.tip(m.Tip).add(
		el("line", "x1", x, "x2", x, "y1", row-9, "y2", c.bottom),
		el("circle", "cx", x, "cy", y, "r", 2*dotRadius),
		el("text", "x", textX, "y", row, "text-anchor", side).says(m.Label))
}

// labelPitch is the minimum distance of two lines of goals that both have a label.
const labelPitch = 16.0

// drawGoals draws a line across for each goal, with a label at its right end.
func (c *canvas) drawGoals() *element {
	g := el("g", "class", "goals")
	var labelled []float64
	for _, goal := range c.Goals {
		y, ok := c.Y.place(goal.Y, c.bottom, c.top)
		if !ok {
			continue
		}
		g.add(el("line", "x1", c.left, "x2", c.right, "y1", y, "y2", y))
		if slices.ContainsFunc(labelled, func(other float64) bool { return max(y-other, other-y) < labelPitch }) {
			continue
		}
		labelled = append(labelled, y)
		at := y - 5
		if at < c.top+labelPitch { // the labels of marks are above the inside
			at = y + 14
		}
		g.add(el("text", "x", c.right-4, "y", at, "text-anchor", "end").says(goal.Label))
	}
	return g
}

// Styles is the number of styles of lines and bars.
const Styles = 8

// Swatch returns a sample of a line for a legend.
func Swatch(style int, dashed bool) template.HTML {
	class := fmt.Sprintf("line s%d", style)
	if dashed {
		class += " dashed"
	}
	return el("svg", "viewBox", "0 0 28 12", "class", "swatch", "aria-hidden", "true").add(
		el("g", "class", class).add(
			el("path", "class", "stroke", "d", "M1 6L27 6"),
			el("g", "class", "dot").add(shape(style, 14, 6)))).markup()
}

// shape returns a dot with a form for each style, so that styles differ without colour.
func shape(style int, x, y float64) *element {
	const r = dotRadius
	corners := func(deltas ...float64) *element {
		var p path
		for i := 0; i < len(deltas); i += 2 {
			p.to(x+r*deltas[i], y+r*deltas[i+1])
		}
		return el("path", "class", "shape", "d", p.String()+"Z")
	}
	switch style % 5 {
	case 1:
		return corners(-0.9, -0.9, 0.9, -0.9, 0.9, 0.9, -0.9, 0.9)
	case 2:
		return corners(0, -1.3, 1.2, 0.9, -1.2, 0.9)
	case 3:
		return corners(0, -1.4, 1.4, 0, 0, 1.4, -1.4, 0)
	case 4:
		return corners(0, 1.3, 1.2, -0.9, -1.2, -0.9)
	}
	return el("circle", "class", "shape", "cx", x, "cy", y, "r", r)
}
