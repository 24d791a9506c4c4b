//go:build !race

package report_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/taskengine/taskengine/bench/report"
	"github.com/taskengine/taskengine/bench/result"
)

// document is a page that was parsed.
type document struct {
	*html.Node
	source string
}

func write(t testing.TB, results []*result.Result) document {
	t.Helper()
	var b bytes.Buffer
	if err := report.Write(&b, results); err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	return document{root, b.String()}
}

// all returns the elements of a name that have a class, in order; "" is any.
func all(n *html.Node, name, class string) (out []*html.Node) {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && (name == "" || d.Data == name) && (class == "" || strings.Contains(" "+attr(d, "class")+" ", " "+class+" ")) {
			out = append(out, d)
		}
	}
	return out
}

func byID(t testing.TB, n *html.Node, id string) *html.Node {
	t.Helper()
	for _, e := range all(n, "", "") {
		if attr(e, "id") == id {
			return e
		}
	}
	t.Fatalf("there is nothing with the id %s", id)
	return nil
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// text returns the visible text of an element, with single spaces.
func text(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data + " ")
		}
	}
	return strings.Join(strings.Fields(strings.NewReplacer("\u00a0", " ", "\u202f", " ").Replace(b.String())), " ")
}

// flaws returns the flaws of a page, whatever it shows.
func (d document) flaws() (out []string) {
	ids := map[string]bool{}
	scripts := 0
	for _, e := range all(d.Node, "", "") {
		if id := attr(e, "id"); id != "" {
			if ids[id] {
				out = append(out, "the id "+id+" is there twice")
			}
			ids[id] = true
		}
		switch e.Data {
		case "script":
			scripts++
		case "img", "iframe", "object", "embed", "link", "base", "form", "foreignObject", "image", "use", "audio", "video":
			out = append(out, "there is an element "+e.Data)
		}
		for _, a := range e.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on"), a.Key == "src", a.Key == "srcset", a.Key == "style", a.Key == "action", a.Key == "srcdoc":
				out = append(out, fmt.Sprintf("%s has %s=%q", e.Data, a.Key, a.Val))
			case strings.HasSuffix(a.Key, "href") && !strings.HasPrefix(a.Val, "#"):
				out = append(out, fmt.Sprintf("there is a link to %q", a.Val))
			case (e.Namespace == "svg" && a.Key != "class" && a.Key != "aria-labelledby") && (strings.Contains(a.Val, "NaN") || strings.Contains(a.Val, "Inf")):
				out = append(out, fmt.Sprintf("%s has %s=%q", e.Data, a.Key, a.Val))
			}
		}
	}
	if scripts != 1 {
		out = append(out, fmt.Sprintf("there are %d scripts", scripts))
	}
	for _, e := range all(d.Node, "", "") {
		for id := range strings.FieldsSeq(attr(e, "aria-labelledby")) {
			if !ids[id] {
				out = append(out, "nothing has the id "+id)
			}
		}
	}
	return append(out, d.outliers()...)
}

// outliers returns the elements that are drawn beyond their frame.
func (d document) outliers() (out []string) {
	for _, frame := range all(d.Node, "g", "frame") {
		number := func(e *html.Node, name string) float64 {
			v, err := strconv.ParseFloat(attr(e, name), 64)
			if err != nil {
				out = append(out, fmt.Sprintf("%s has %s=%q", e.Data, name, attr(e, name)))
			}
			return v
		}
		left, right, top, bottom := number(frame, "data-left"), number(frame, "data-right"), number(frame, "data-top"), number(frame, "data-bottom")
		check := func(x, y float64) {
			const rounding = 0.1
			if x < left-rounding || x > right+rounding || y < top-rounding || y > bottom+rounding {
				out = append(out, fmt.Sprintf("(%v, %v) is beyond its frame of %v to %v and %v to %v", x, y, left, right, top, bottom))
			}
		}
		for _, aim := range all(frame, "circle", "aim") {
			check(number(aim, "cx"), number(aim, "cy"))
		}
		for _, p := range append(all(frame, "path", "stroke"), all(frame, "path", "band")...) {
			for _, c := range coordinates(attr(p, "d")) {
				check(c[0], c[1])
			}
		}
		for _, r := range all(frame, "rect", "fill") {
			check(number(r, "x"), number(r, "y"))
			check(number(r, "x")+number(r, "width"), number(r, "y")+number(r, "height"))
		}
	}
	return out
}

// coordinates returns the corners of a path of lines.
func coordinates(path string) (out [][2]float64) {
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == 'M' || r == 'L' || r == 'Z' }) {
		x, y, _ := strings.Cut(part, " ")
		a, _ := strconv.ParseFloat(x, 64)
		b, _ := strconv.ParseFloat(y, 64)
		out = append(out, [2]float64{a, b})
	}
	return out
}

func (d document) mustBeSound(t testing.TB) {
	t.Helper()
	for _, f := range d.flaws() {
		t.Error(f)
	}
}
