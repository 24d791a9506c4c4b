// Package docpages reads the examples in the pages of the documentation, for the tests that run them.
package docpages

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Block is a block of code of a page.
type Block struct {
	Page     string // its path in the repository, such as docs/how-to/cron.md
	Line     int    // of its first line of code
	Language string // the word after the fence; empty for one without, and for an indented block
	Title    string // the name of the file that the block is the content of, from title="..." after the language
	Text     string
}

// Read returns the blocks of README.md and of all pages below docs, but for the records of decisions, in the order of the pages. root is the folder of the
// repository.
func Read(root string) (all []Block, err error) {
	pages := []string{"README.md"}
	err = fs.WalkDir(os.DirFS(root), "docs", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == "docs/adr":
			return fs.SkipDir
		case filepath.Ext(name) == ".md":
			pages = append(pages, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			return nil, err
		}
		all = append(all, blocks(page, string(text))...)
	}
	return all, nil
}

var fence = regexp.MustCompile("^( *)```([^\\s]*)(?: title=\"([^\"]*)\")?$")

// blocks returns the blocks of a page.
func blocks(page, text string) (all []Block) {
	var open *Block
	indent, before := "", ""
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSuffix(line, "\n")
		m := fence.FindStringSubmatch(line)
		switch {
		case open != nil && open.Language != indented && m != nil:
			all, open = append(all, *open), nil
		case open != nil && open.Language != indented:
			open.Text += strings.TrimPrefix(line, indent) + "\n"
		case m != nil:
			indent, open = m[1], &Block{Page: page, Line: number + 1, Language: m[2], Title: m[3]}
		case open == nil && before == "" && strings.HasPrefix(line, "    "):
			open = &Block{Page: page, Line: number, Language: indented, Text: line[4:] + "\n"}
		case open != nil && strings.HasPrefix(line, "    "):
			open.Text += line[4:] + "\n"
		case open != nil:
			open.Language = ""
			all, open = append(all, *open), nil
		}
		before = line
	}
	if open != nil {
		open.Language = strings.TrimPrefix(open.Language, indented)
		all = append(all, *open)
	}
	return all
}

// indented is the language of an indented block while it is read.
const indented = "\x00"
