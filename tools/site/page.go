package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// repository is where links to files lead that are no pages.
const repository = "https://github.com/taskengine/taskengine/blob/main/"

//go:embed page.html
var layout string

// page is a file in Markdown.
type page struct {
	path     string // in the repository, with slashes
	title    string
	source   []byte
	tree     ast.Node
	headings []heading
}

// heading is a heading of a page, with the text below it.
type heading struct{ id, title, text string }

// entry is a part of a page that the search looks through.
type entry struct {
	Page    string `json:"page"`
	Title   string `json:"title"`
	Heading string `json:"heading"`
	Text    string `json:"text"`
}

// target is the path of the page in the site.
func (p *page) target() string {
	if p.path == "README.md" {
		return "index.html"
	}
	return strings.TrimSuffix(p.path, ".md") + ".html"
}

// ids makes the ids of headings as GitHub does.
type ids struct{ used map[string]int }

var dropped = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)

func (i *ids) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(string(value)), ""), " ", "-")
	n := i.used[id]
	i.used[id]++
	if n > 0 {
		id = fmt.Sprintf("%s-%d", id, n)
	}
	return []byte(id)
}

func (i *ids) Put([]byte) {}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()), goldmark.WithRendererOptions(html.WithUnsafe()))

// read returns README.md, CONTRIBUTING.md, CHANGELOG.md and all pages below docs, in the order of their paths.
func read(root string) (all []*page, err error) {
	paths := []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
	err = fs.WalkDir(os.DirFS(root), "docs", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".md" {
			paths = append(paths, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, name := range paths {
		source, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		p := &page{path: name, source: source}
		p.tree = markdown.Parser().Parse(text.NewReader(source), parser.WithContext(parser.NewContext(parser.WithIDs(&ids{used: make(map[string]int)}))))
		p.outline()
		all = append(all, p)
	}
	return all, nil
}

// outline notes the headings of the page.
func (p *page) outline() {
	for n := p.tree.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			id, _ := h.AttributeString("id")
			idText, _ := id.([]byte)
			p.headings = append(p.headings, heading{id: string(idText), title: p.words(h)})
		} else if len(p.headings) > 0 {
			p.headings[len(p.headings)-1].text += p.words(n) + " "
		}
	}
	if len(p.headings) > 0 {
		p.title = p.headings[0].title
	}
}

// words returns the text of a node.
func (p *page) words(of ast.Node) string {
	var all strings.Builder
	_ = ast.Walk(of, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch {
		case !entering:
			if n.Type() == ast.TypeBlock {
				all.WriteByte(' ')
			}
		case n.Kind() == ast.KindText:
			t := n.(*ast.Text)
			all.Write(t.Segment.Value(p.source))
			if t.SoftLineBreak() {
				all.WriteByte(' ')
			}
		case n.Kind() == ast.KindCodeBlock, n.Kind() == ast.KindFencedCodeBlock:
			all.Write(n.Lines().Value(p.source))
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(all.String()), " ")
}

// entries returns the parts of the page that the search finds.
func (p *page) entries() (all []entry) {
	if strings.HasPrefix(p.path, "docs/adr/") {
		return []entry{{Page: p.target(), Title: p.title}}
	}
	for _, h := range p.headings {
		all = append(all, entry{Page: p.target() + "#" + h.id, Title: p.title, Heading: h.title, Text: h.text})
	}
	return all
}

// check reports every link that leads nowhere, and has the others lead to pages of the site, or to the repository.
func check(root string, pages []*page) error {
	targets := make(map[string]*page)
	for _, p := range pages {
		targets[p.path] = p
	}
	var problems []error
	for _, p := range pages {
		_ = ast.Walk(p.tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			link, ok := n.(*ast.Link)
			if !entering || !ok || strings.Contains(string(link.Destination), "://") {
				return ast.WalkContinue, nil
			}
			file, anchor, _ := strings.Cut(string(link.Destination), "#")
			to := p.path
			if file != "" {
				to = path.Join(path.Dir(p.path), file)
			}
			switch other := targets[to]; {
			case other != nil && anchor != "" && !other.has(anchor):
				problems = append(problems, fmt.Errorf("%s: %s has no heading for the link to %s", p.path, to, link.Destination))
			case other != nil:
				link.Destination = []byte(p.relative(other.target()))
				if anchor != "" {
					link.Destination = append(link.Destination, "#"+anchor...)
				}
			default:
				if _, err := os.Stat(filepath.Join(root, to)); err != nil && to != "docs/adr/NNNN-title.md" {
					problems = append(problems, fmt.Errorf("%s: the link to %s leads nowhere", p.path, link.Destination))
				}
				link.Destination = []byte(repository + to)
				if anchor != "" {
					link.Destination = append(link.Destination, "#"+anchor...)
				}
			}
			return ast.WalkContinue, nil
		})
	}
	return errors.Join(problems...)
}

func (p *page) has(anchor string) bool {
	for _, h := range p.headings {
		if h.id == anchor {
			return true
		}
	}
	return false
}

// relative returns the way from the page to a file of the site.
func (p *page) relative(to string) string {
	return strings.Repeat("../", strings.Count(p.target(), "/")) + to
}

// group is a row of the table of README.md.
type group struct {
	Title string
	Pages []*page
}

var (
	row  = regexp.MustCompile(`(?m)^\| ([a-z][^|]*) \| (.*) \|$`)
	link = regexp.MustCompile(`\]\(([^)#]+\.md)\)`)
)

// navigation returns the pages by reader, as the documentation in README.md lists them.
func navigation(pages []*page) (all []group, err error) {
	byPath := make(map[string]*page)
	for _, p := range pages {
		byPath[p.path] = p
	}
	_, table, _ := strings.Cut(string(byPath["README.md"].source), "\n## Documentation\n")
	for _, r := range row.FindAllStringSubmatch(table, -1) {
		g := group{Title: r[1]}
		for _, l := range link.FindAllStringSubmatch(r[2], -1) {
			if p := byPath[l[1]]; p != nil {
				g.Pages = append(g.Pages, p)
			}
		}
		if len(g.Pages) > 0 {
			all = append(all, g)
		}
	}
	if len(all) < 5 {
		return nil, fmt.Errorf("the documentation in README.md has only %d rows with pages", len(all))
	}
	return all, nil
}

// render returns the page in HTML.
func (p *page) render(groups []group, version string) ([]byte, error) {
	var body, out bytes.Buffer
	if err := markdown.Renderer().Render(&body, p.source, p.tree); err != nil {
		return nil, err
	}
	t, err := template.New("page").Funcs(template.FuncMap{
		"to":    func(q *page) string { return p.relative(q.target()) },
		"is":    func(q *page) bool { return p == q },
		"title": func(q *page) string { return q.title },
	}).Parse(layout)
	if err != nil {
		return nil, err
	}
	err = t.Execute(&out, map[string]any{
		"Title": p.title, "Version": version, "Home": p.relative("index.html"), "Root": p.relative(""), "Index": p.relative("index.js"), "Words": p.relative("words.js"), "Versions": p.relative("../versions.js"), "Target": p.target(),
		"Groups": groups, "Body": template.HTML(body.String()),
	})
	return out.Bytes(), err
}
