package report

import (
	"fmt"
)

// Sizes of drawings, in pixels at their natural size.
const (
	drawingWidth = 600.0
	marginLeft   = 68.0
	marginRight  = 18.0
	marginTop    = 30.0 // for the name of the vertical axis
	marginBottom = 44.0 // for ticks and name of the horizontal axis
	markPitch    = 16.0 // between the labels of marks, which are above the inside
	gap          = 26.0 // between the ticks of one frame and the next
	dotRadius    = 3.5
	aimRadius    = 9.0 // of the area around a point that shows its tip
)

// frame is a pair of axes with lines.
type frame struct {
	x, y   axis
	height float64 // of the inside
	lines  []line
	goals  []goal
	marks  []mark
}

// line is one series of a frame.
type line struct {
	key    int  // of its entry in the legend
	style  int  // colour and shape
	dashed bool // distinguishes it from a solid line of the same style
	points []point
	band   []between // the spread around the line
}

// point is one value of a line.
type point struct {
	x, y   float64
	tip    string // the text shown under the pointer; a point without is only part of the line
	hollow bool   // distinguished from other points, as the caption says
	bare   bool   // without a dot
}

// between is the spread of a line at one place.
type between struct{ x, low, high float64 }

// mark is a highlighted place of the horizontal axis.
type mark struct {
	key, style int
	x, y       float64
	label, tip string
}

// fit sets the ranges of the axes.
func (f *frame) fit(ticksX, ticksY int) {
	var xs, ys []float64
	for _, l := range f.lines {
		for _, p := range l.points {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
		for _, b := range l.band {
			xs, ys = append(xs, b.x), append(ys, b.low, b.high)
		}
	}
	for _, g := range f.goals {
		ys = append(ys, g.y)
	}
	f.x.fit(xs, ticksX)
	f.y.fit(ys, ticksY)
}

// canvas is the position of the inside of a frame in its drawing.
type canvas struct {
	*frame
	left, right, top, bottom float64
}

// at returns the position of a point.
func (c *canvas) at(x, y float64) (px, py float64, ok bool) {
	px, okX := c.x.place(x, c.left, c.right)
	py, okY := c.y.place(y, c.bottom, c.top)
	return px, py, okX && okY
}

// drawFrames returns a drawing of frames below each other. Only the last has the name of the horizontal
// axis, since it is the same for all.
func drawFrames(title, desc, id string, frames ...*frame) *element {
	y := 0.0
	var groups []*element
	for i, f := range frames {
		top := y + marginTop + markPitch*float64(len(f.marks))
		c := &canvas{f, marginLeft, drawingWidth - marginRight, top, top + f.height}
		last := i == len(frames)-1
		groups = append(groups, c.draw(last))
		y = c.bottom + gap
		if last {
			y = c.bottom + marginBottom
		}
	}
	return drawing(title, desc, id, y).add(groups...)
}

// drawing returns an empty drawing with a description.
func drawing(title, desc, id string, height float64) *element {
	return el("svg", "viewBox", fmt.Sprintf("0 0 %s %s", px(drawingWidth), px(height)), "role", "img",
		"aria-labelledby", id+"-title "+id+"-desc", "data-height", height).add(
		el("title", "id", id+"-title").says(title), el("desc", "id", id+"-desc").says(desc))
}

func (c *canvas) draw(last bool) *element {
	g := el("g", "class", "frame", "data-left", c.left, "data-right", c.right, "data-top", c.top, "data-bottom", c.bottom)
	g.add(c.drawY(), c.drawX(last))
	for i := range c.lines {
		g.add(c.drawLine(&c.lines[i]))
	}
	if len(c.goals) > 0 {
		g.add(c.drawGoals())
	}
	for i, m := range c.marks {
		g.add(c.drawMark(m, i))
	}
	return g
}

func (c *canvas) drawY() *element {
	g := el("g", "class", "axis y")
	for _, t := range c.y.ticks {
		_, y, ok := c.at(c.middleX(), t.value)
		if !ok {
			continue
		}
		g.add(el("line", "class", "grid", "x1", c.left, "x2", c.right, "y1", y, "y2", y),
			el("text", "class", "tick", "x", c.left-8, "y", y+4, "text-anchor", "end").says(t.label))
	}
	return g.add(el("text", "class", "name", "x", 2.0, "y", c.top-14-markPitch*float64(len(c.marks))).says(c.y.label))
}

// middleX returns a value of the horizontal axis that can be drawn.
func (c *canvas) middleX() float64 {
	if len(c.x.ticks) == 0 {
		return 0
	}
	return c.x.ticks[0].value
}

func (c *canvas) drawX(named bool) *element {
	g := el("g", "class", "axis x").add(el("line", "class", "base", "x1", c.left, "x2", c.right, "y1", c.bottom, "y2", c.bottom))
	for _, t := range c.x.ticks {
		x, ok := c.x.place(t.value, c.left, c.right)
		if !ok {
			continue
		}
		g.add(el("line", "class", "base", "x1", x, "x2", x, "y1", c.bottom, "y2", c.bottom+4),
			el("text", "class", "tick", "x", x, "y", c.bottom+18, "text-anchor", anchor(x, c.right)).says(t.label))
	}
	if named {
		g.add(el("text", "class", "name", "x", c.right, "y", c.bottom+38, "text-anchor", "end").says(c.x.label))
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

func (c *canvas) drawLine(l *line) *element {
	class := fmt.Sprintf("line s%d", l.style)
	if l.dashed {
		class += " dashed"
	}
	g := el("g", "class", class, "data-key", l.key)
	if band := c.drawBand(l.band); band != nil {
		g.add(band)
	}
	var stroke path
	dots := el("g", "class", "dots")
	for _, p := range l.points {
		x, y, ok := c.at(p.x, p.y)
		if !ok {
			continue
		}
		stroke.to(x, y)
		if p.tip == "" {
			continue
		}
		dot := el("g", "class", "dot").tip(p.tip)
		if p.hollow {
			dot = el("g", "class", "dot hollow").tip(p.tip)
		}
		if !p.bare {
			dot.add(shape(l.style, x, y))
		}
		dots.add(dot.add(el("circle", "class", "aim", "cx", x, "cy", y, "r", aimRadius)))
	}
	if stroke.Len() > 0 {
		g.add(el("path", "class", "stroke", "d", stroke.String()))
	}
	return g.add(dots)
}

func (c *canvas) drawBand(band []between) *element {
	var outline path
	for _, b := range band {
		if x, y, ok := c.at(b.x, b.high); ok {
			outline.to(x, y)
		}
	}
	for i := len(band) - 1; i >= 0; i-- {
		if x, y, ok := c.at(band[i].x, band[i].low); ok {
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
func (c *canvas) drawMark(m mark, nth int) *element {
	x, y, ok := c.at(m.x, m.y)
	g := el("g", "class", fmt.Sprintf("mark s%d", m.style), "data-key", m.key)
	if !ok {
		return g
	}
	textX, side := x+7, "start"
	if x > (c.left+c.right)/2 {
		textX, side = x-7, "end"
	}
	row := c.top - markPitch*float64(len(c.marks)-nth) + 6
	return g.tip(m.tip).add(
		el("line", "x1", x, "x2", x, "y1", row-9, "y2", c.bottom),
		el("circle", "cx", x, "cy", y, "r", 2*dotRadius),
		el("text", "x", textX, "y", row, "text-anchor", side).says(m.label))
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
