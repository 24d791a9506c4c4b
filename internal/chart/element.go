package chart

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// element is an element of an SVG drawing. Its text and the values of its attributes are
// escaped when it is written; names come from this package only.
type element struct {
	name     string
	attrs    []string // name, value, name, value ...
	text     string
	children []*element
}

// el returns an element. The attributes are given as name, value, name, value ...; numbers are rounded
// to a tenth of a pixel.
func el(name string, attrs ...any) *element {
	n := &element{name: name}
	for i := 0; i+1 < len(attrs); i += 2 {
		n.attrs = append(n.attrs, attrs[i].(string), attribute(attrs[i+1]))
	}
	return n
}

func attribute(v any) string {
	switch v := v.(type) {
	case float64:
		return px(v)
	case string:
		return v
	}
	return fmt.Sprint(v)
}

// px writes a coordinate.
func px(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

func (n *element) add(children ...*element) *element {
	n.children = append(n.children, children...)
	return n
}

// says sets the content of an element.
func (n *element) says(text string) *element {
	n.text = text
	return n
}

// tip sets the text that is shown when the pointer is on an element.
func (n *element) tip(text string) *element {
	if text == "" {
		return n
	}
	return n.add(el("title").says(text))
}

func (n *element) write(b *strings.Builder) {
	b.WriteString("<" + n.name)
	for i := 0; i < len(n.attrs); i += 2 {
		b.WriteString(" " + n.attrs[i] + `="` + html.EscapeString(n.attrs[i+1]) + `"`)
	}
	b.WriteString(">")
	for _, k := range n.children {
		k.write(b)
	}
	b.WriteString(html.EscapeString(n.text))
	b.WriteString("</" + n.name + ">")
}

// markup returns a drawing for a template. It needs no more escaping, since element has escaped its
// parts.
func (n *element) markup() template.HTML {
	var b strings.Builder
	n.write(&b)
	return template.HTML(b.String())
}

// path collects the commands of a path.
type path struct{ strings.Builder }

func (p *path) to(x, y float64) {
	command := "L"
	if p.Len() == 0 {
		command = "M"
	}
	p.WriteString(command + px(x) + " " + px(y))
}

// widthOf returns the approximate width of text in a drawing. It overestimates, because the font is
// unknown.
func widthOf(s string) (width float64) {
	for _, r := range s {
		switch {
		case r >= 0x1100 || strings.ContainsRune("MW@%mw", r):
			width += 13
		case r >= 'A' && r <= 'Z':
			width += 9.5
		default:
			width += 7.5
		}
	}
	return width
}

// Fitted cuts text to an approximate width in pixels of a drawing.
func Fitted(s string, width float64) string {
	if widthOf(s) <= width {
		return s
	}
	runes := []rune(s)
	for n := len(runes) - 1; n > 0; n-- {
		if cut := string(runes[:n]) + "…"; widthOf(cut) <= width {
			return cut
		}
	}
	return "…"
}
