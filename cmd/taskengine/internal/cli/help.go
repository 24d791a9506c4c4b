package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/suggest"
)

// The width of help: that of the terminal, within bounds in which lines can be read, and helpWidth without a terminal.
const (
	helpWidth  = 80
	helpNarrow = 40
	helpWide   = 100
)

// exitCodesHelp lists the exit codes.
func exitCodesHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, m := range exit.Meanings() {
		fmt.Fprintf(&b, "  %-8s  %s\n", codesText(m.Codes), strings.ReplaceAll(m.Text, "`", ""))
	}
	return b.String()
}

// codesText joins exit codes.
func codesText(codes []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(codes), "[]"), " ", ", ")
}

// printHelp prints what a command is for, and how it is used.
func (a *app) printHelp(cmd *cobra.Command, _ []string) {
	fmt.Fprint(a.stdout, wrapped(strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)), a.helpWidth())+"\n\n")
	fmt.Fprint(a.stdout, cmd.UsageString())
}

// printUsage prints how a command is used.
func (a *app) printUsage(cmd *cobra.Command) error {
	width := a.helpWidth()
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() && !cmd.HasAvailableSubCommands() || strings.Contains(cmd.Use, " ") {
		b.WriteString(indented("  ", cmd.UseLine(), "    ", width))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n\nAvailable commands:\n", cmd.CommandPath())
		longest := 0
		for _, sub := range cmd.Commands() {
			longest = max(longest, len(sub.Name()))
		}
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				b.WriteString(indented(fmt.Sprintf("  %-*s  ", longest, sub.Name()), sub.Short, strings.Repeat(" ", longest+4), width))
			}
		}
	}
	for _, set := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"Flags", cmd.LocalFlags()}, {"Global flags", cmd.InheritedFlags()}} {
		if set.flags.HasAvailableFlags() {
			fmt.Fprintf(&b, "\n%s:\n%s", set.title, flagsText(set.flags, width))
		}
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n" + indented("", cmd.CommandPath()+" [command] --help describes a command.", "", width))
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}

// helpWidth returns how wide help is.
func (a *app) helpWidth() int {
	if !a.outTTY {
		return helpWidth
	}
	return min(max(a.width(), helpNarrow), helpWide)
}

// flagsText describes flags, each in a line or more.
func flagsText(flags *pflag.FlagSet, width int) string {
	const most = 28 // of the names; the text of a flag with longer names begins on the next line
	var names, texts []string
	longest := 0
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name, text := flagText(f)
		names, texts = append(names, name), append(texts, text)
		if len(name) <= most {
			longest = max(longest, len(name))
		}
	})
	rest := strings.Repeat(" ", longest+2)
	var b strings.Builder
	for i, name := range names {
		if len(name) > longest {
			b.WriteString(name + "\n")
			name = ""
		}
		b.WriteString(indented(fmt.Sprintf("%-*s  ", longest, name), texts[i], rest, width))
	}
	return b.String()
}

// flagText returns the names of a flag with its value, and its meaning with the default.
func flagText(f *pflag.Flag) (name, text string) {
	value, text := pflag.UnquoteUsage(f)
	name = "      --" + f.Name
	if f.Shorthand != "" {
		name = "  -" + f.Shorthand + ", --" + f.Name
	}
	if value != "" {
		name += " " + value
	}
	if !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
		text += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	return name, text
}

// wrapped breaks the lines of a text that are wider than width. Lines of a paragraph are joined before. Lines that begin with a
// space stay lines of their own, and go on below the last of their columns.
func wrapped(text string, width int) string {
	var b strings.Builder
	var paragraph []string
	end := func() {
		if paragraph != nil {
			b.WriteString(indented("", strings.Join(paragraph, " "), "", width))
			paragraph = nil
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		switch {
		case line == "":
			end()
			b.WriteByte('\n')
		case line[0] == '\t': // a command of the help of cobra
			end()
			b.WriteString("    " + line[1:] + "\n")
		case line[0] == ' ':
			end()
			at := lastColumn(line)
			b.WriteString(indented(line[:at], line[at:], strings.Repeat(" ", at), width))
		default:
			paragraph = append(paragraph, line)
		}
	}
	end()
	return strings.TrimRight(b.String(), "\n")
}

// lastColumn returns where the text of the last column of a line begins. Columns have two spaces or more between them.
func lastColumn(line string) int {
	const most = helpWidth / 2
	at := len(line) - len(strings.TrimLeft(line, " "))
	for i := at; i < min(len(line), most+columnGap); i++ {
		if i >= columnGap && line[i] != ' ' && line[i-columnGap:i] == "  " {
			at = i
		}
	}
	return at
}

// indented returns text in lines that are not wider than width, if its words are not. The first one begins with first, and the
// others with rest.
func indented(first, text, rest string, width int) string {
	var b strings.Builder
	b.WriteString(first)
	used, isFirst := widthOf(first), true
	for _, word := range strings.Fields(text) {
		size := widthOf(word)
		switch {
		case isFirst:
		case used+1+size > width:
			b.WriteString("\n" + rest)
			used = len(rest)
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used, isFirst = used+size, false
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

// flagError adds to an error of flags the flag that is meant.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	if name := unknown.GetSpecifiedName(); len(name) > 1 {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if near := suggest.Nearest(name, names); near != "" {
			return fmt.Errorf("%w; did you mean --%s?", err, near)
		}
	}
	return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
}
