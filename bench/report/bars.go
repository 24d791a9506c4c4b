package report

import (
	"fmt"
	"html/template"

	"github.com/taskengine/taskengine/bench/result"
)

func (b *bars) draw(title, id string) template.HTML {
	var values []float64
	for _, r := range b.rows {
		values = append(values, r.from, r.to, r.low, r.high)
	}
	b.x.fit(values, 6)
	bottom := barTop + barPitch*float64(max(1, len(b.rows)))
	g := el("g", "class", "frame", "data-left", 0.0, "data-right", drawingWidth, "data-top", 0.0, "data-bottom", bottom)
	g.add(b.drawAxis(bottom))
	for i, r := range b.rows {
		g.add(b.drawRow(r, barTop+barPitch*(float64(i)+0.65)))
	}
	desc := "Bars of " + result.Counted(len(b.rows), "subject") + "; the table below has the numbers."
	return drawing(title, desc, id, bottom+marginBottom).add(g).markup()
}

func (b *bars) drawAxis(bottom float64) *element {
	g := el("g", "class", "axis x")
	for _, t := range b.x.ticks {
		x, ok := b.x.place(t.value, barLeft, barRight)
		if !ok {
			continue
		}
		g.add(el("line", "class", "grid", "x1", x, "x2", x, "y1", barTop, "y2", bottom),
			el("text", "class", "tick", "x", x, "y", bottom+16, "text-anchor", startAnchor(x)).says(t.label))
	}
	return g.add(el("text", "class", "name", "x", barRight, "y", bottom+36, "text-anchor", "end").says(b.x.label))
}

// startAnchor returns the anchor that keeps the label of the first tick within the drawing.
func startAnchor(x float64) string {
	if x < barLeft+12 {
		return "start"
	}
	return "middle"
}

func (b *bars) drawRow(r bar, y float64) *element {
	g := el("g", "class", fmt.Sprintf("bar s%d", r.style)).tip(r.tip)
	name := el("text", "class", "label", "x", barLeft, "y", y-barHeight/2-5).says(fitted(r.label, barLabel))
	if r.state == failed {
		name = el("text", "class", "label failed", "x", barLeft, "y", y-barHeight/2-5).says(fitted("✗ check failed: "+r.label, barLabel))
	}
	g.add(name)
	from, okFrom := b.x.place(r.from, barLeft, barRight)
	to, okTo := b.x.place(r.to, barLeft, barRight)
	if !okFrom || !okTo {
		return g
	}
	g.add(el("rect", "class", "fill", "x", min(from, to), "y", y-barHeight/2, "width", max(1.5, to-from), "height", barHeight, "rx", 2.0))
	end := to
	low, okLow := b.x.place(r.low, barLeft, barRight)
	high, okHigh := b.x.place(r.high, barLeft, barRight)
	if okLow && okHigh && high-low > 0.5 {
		end = max(to, high)
		g.add(el("path", "class", "whisker", "d", fmt.Sprintf("M%s %sV%sM%s %sH%sM%s %sV%s",
			px(low), px(y-4), px(y+4), px(low), px(y), px(high), px(high), px(y-4), px(y+4))))
	}
	return g.add(b.drawValue(r.value, min(from, to), end, y))
}

// drawValue writes the value of a bar after its end, or before it if there is no room.
func (b *bars) drawValue(value string, from, end, y float64) *element {
	const space = 8
	width := widthOf(value)
	if end+space+width > drawingWidth && from-space-width > 0 {
		return el("text", "class", "value", "x", from-space, "y", y+4, "text-anchor", "end").says(value)
	}
	return el("text", "class", "value", "x", min(end+space, drawingWidth-width), "y", y+4).says(value)
}
