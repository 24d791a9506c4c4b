// Package manual writes the pages of the manual from the commands of the program, for man(1).
package manual

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// section is the section of programs.
const section = "1"

// Page is a page of the manual.
type Page struct {
	Name string // of its file, such as taskengine-task-list.1
	Text string // for man(1)
}

// Pages returns the pages of a command and of all commands below it that are not hidden. version is that of the program. The
// same commands give the same pages.
func Pages(c *cobra.Command, version string) []Page {
	all := []Page{{fileOf(c), text(c, version)}}
	for _, sub := range commandsOf(c) {
		all = append(all, Pages(sub, version)...)
	}
	return all
}

// Write writes the pages of a command into a folder, which it makes if it is not there, and returns how many there are.
func Write(folder string, c *cobra.Command, version string) (int, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return 0, fmt.Errorf("make the folder of the manual: %w", err)
	}
	pages := Pages(c, version)
	for _, p := range pages {
		if err := os.WriteFile(filepath.Join(folder, p.Name), []byte(p.Text), 0o644); err != nil {
			return 0, fmt.Errorf("write a page of the manual: %w", err)
		}
	}
	return len(pages), nil
}

func commandsOf(c *cobra.Command) (all []*cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			all = append(all, sub)
		}
	}
	return all
}

// nameOf returns the name of a page, such as taskengine-task-list.
func nameOf(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func fileOf(c *cobra.Command) string { return nameOf(c) + "." + section }

// text returns the page of a command.
func text(c *cobra.Command, version string) string {
	p := new(page)
	p.macro("TH", strings.ToUpper(nameOf(c)), section, "", "taskengine "+version, "taskengine")
	p.macro("SH", "NAME")
	p.line(nameOf(c) + ` \- ` + plain(c.Short))
	p.macro("SH", "SYNOPSIS")
	if commandsOf(c) == nil {
		p.line(bold(c.CommandPath()) + plain(strings.TrimPrefix(c.UseLine(), c.CommandPath())))
	} else {
		p.line(bold(c.CommandPath()) + plain(" COMMAND [flags]"))
	}
	description, codes, _ := strings.Cut(cmp.Or(c.Long, c.Short), "Exit codes:\n")
	p.macro("SH", "DESCRIPTION")
	p.paragraphs(description)
	if all := commandsOf(c); all != nil {
		p.macro("SH", "COMMANDS")
		for _, sub := range all {
			p.item(bold(sub.Name()), sub.Short)
		}
	}
	p.flags("OPTIONS", c.NonInheritedFlags())
	p.flags("GLOBAL OPTIONS", c.InheritedFlags())
	if codes != "" {
		p.macro("SH", "EXIT STATUS")
		for line := range strings.Lines(codes) {
			if code, meaning, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
				p.item(bold(code), strings.TrimSpace(meaning))
			}
		}
	}
	var also []string
	if c.HasParent() {
		also = append(also, reference(c.Parent()))
	}
	for _, sub := range commandsOf(c) {
		also = append(also, reference(sub))
	}
	if also != nil {
		p.macro("SH", "SEE ALSO")
		p.line(strings.Join(also, ",\n"))
	}
	return p.String()
}

func reference(c *cobra.Command) string { return bold(nameOf(c)) + "(" + section + ")" }

// page is a page that is written.
type page struct{ strings.Builder }

// macro writes a request of man(7).
func (p *page) macro(name string, arguments ...string) {
	p.WriteString("." + name)
	for _, a := range arguments {
		p.WriteString(` "` + strings.ReplaceAll(plain(a), `"`, `\(dq`) + `"`)
	}
	p.WriteByte('\n')
}

// line writes text that is formatted already.
func (p *page) line(formatted string) { p.WriteString(formatted + "\n") }

// item writes an entry of a list.
func (p *page) item(formatted, text string) {
	p.macro("TP")
	p.line(formatted)
	p.line(plain(text))
}

// paragraphs writes text of paragraphs. Lines that begin with a space are shown as they are.
func (p *page) paragraphs(text string) {
	isAsIs := false
	for line := range strings.Lines(strings.TrimSpace(text)) {
		line = strings.TrimRight(line, " \n")
		if asIs := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"); asIs != isAsIs && line != "" {
			isAsIs = asIs
			p.macro(map[bool]string{true: "nf", false: "fi"}[isAsIs])
		}
		switch {
		case line != "":
			p.line(plain(line))
		case isAsIs:
			p.line("")
		default:
			p.macro("PP")
		}
	}
	if isAsIs {
		p.macro("fi")
	}
}

// flags writes a section of flags.
func (p *page) flags(title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	p.macro("SH", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, about := pflag.UnquoteUsage(f)
		name := bold("--" + f.Name)
		if f.Shorthand != "" {
			name = bold("-"+f.Shorthand) + ", " + name
		}
		if value != "" {
			name += ` \fI` + plain(value) + `\fR`
		}
		p.item(name, about)
	})
}

func bold(text string) string { return `\fB` + plain(text) + `\fR` }

// plain returns text that troff shows as it is. Minus signs can be searched for and copied.
func plain(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
