package chart

import (
	"fmt"
	"html/template"
)

// Sizes of bars.
const (
	barLeft   = 4.0
	barRight  = width - 100 // values are to the right of it
	barTop    = 6.0
	barHeight = 12.0
	barPitch  = 40.0 // including the name above
	barLabel  = width - barLeft
)

// Bars is a drawing of bars below each other.
type Bars struct {
	X    Axis
	Rows []Bar
}

// Bar is one bar.
type Bar struct {
	Label, Tip, Value string
	Style             int     // colour, below [Styles]
	From, To          float64 // of the bar
	Low, High         float64 // of the whisker at its end; equal if there is none
	Bad               bool    // its label is emphasised
}

// Draw returns the drawing, with a description for readers of a screen. id is unique on its page.
func (b *Bars) Draw(title, desc, id string) template.HTML {
	var values []float64
	for _, r := range b.Rows {
		values = append(values, r.From, r.To, r.Low, r.High)
	}
	b.X.fit(values, 6)
	bottom := barTop + barPitch*float64(max(1, len(b.Rows)))
	g := el("g", "class", "frame", "data-left", 0.0, "data-right", width, "data-top", 0.0, "data-bottom", bottom)
	g.add(b.drawAxis(bottom))
	for i, r := range b.Rows {
		g.add(b.drawRow(r, barTop+barPitch*(float64(i)+0.65)))
	}
	return drawing(title, desc, id, bottom+marginBottom).add(g).markup()
}

func (b *Bars) drawAxis(bottom float64) *element {
	g := el("g", "class", "axis x")
	for _, t := range b.X.ticks {
		x, ok := b.X.place(t.value, barLeft, barRight)
		if !ok {
			continue
		}
		g.add(el("line", "class", "grid", "x1", x, "x2", x, "y1", barTop, "y2", bottom),
			el("text", "class", "tick", "x", x, "y", bottom+16, "text-anchor", startAnchor(x)).says(t.label))
	}
	return g.add(el("text", "class", "name", "x", barRight, "y", bottom+36, "text-anchor", "end").says(b.X.Label))
}

// startAnchor returns the anchor that keeps the label of the first tick within the drawing.
func startAnchor(x float64) string {
	if x < barLeft+12 {
		return "start"
	}
	return "middle"
}

func (b *Bars) drawRow(r Bar, y float64) *element {
	g := el("g", "class", fmt.Sprintf("bar s%d", r.Style)).tip(r.Tip)
	class := "label"
	if r.Bad {
		class += " failed"
	}
	g.add(el("text", "class", class, "x", barLeft, "y", y-barHeight/2-5).says(Fitted(r.Label, barLabel)))
	from, okFrom := b.X.place(r.From, barLeft, barRight)
	to, okTo := b.X.place(r.To, barLeft, barRight)
	if !okFrom || !okTo {
		return g
	}
	g.add(el("rect", "class", "fill", "x", min(from, to), "y", y-barHeight/2, "width", max(1.5, to-from), "height", barHeight, "rx", 2.0))
	end := to
	low, okLow := b.X.place(r.Low, barLeft, barRight)
	high, okHigh := b.X.place(r.High, barLeft, barRight)
	if okLow && okHigh && high-low > 0.5 {
		end = max(to, high)
		g.add(el("path", "class", "whisker", "d", fmt.Sprintf("M%s %sV%sM%s %sH%sM%s %sV%s",
			px(low), px(y-4), px(y+4), px(low), px(y), px(high), px(high), px(y-4), px(y+4))))
	}
	return g.add(b.drawValue(r.Value, min(from, to), end, y))
}

// drawValue writes the value of a bar after its end, or before it if there is no room.
func (b *Bars) drawValue(value string, from, end, y float64) *element {
	const space = 8
	long := widthOf(value)
	if end+space+long > width && from-space-long > 0 {
		return el("text", "class", "value", "x", from-space, "y", y+4, "text-anchor", "end").says(value)
	}
	return el("text", "class", "value", "x", min(end+space, width-long), "y", y+4).says(value)
}
