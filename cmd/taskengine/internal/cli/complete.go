package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/newnode"
	"github.com/taskengine/taskengine/cmd/taskengine/internal/scaffold"
	"github.com/taskengine/taskengine/internal/access"
)

const (
	completionPatience = 2 * time.Second // a shell waits for it
	completionMost     = 100             // values that are asked for
)

// offer is a value that a shell offers, with a few words about it.
type offer struct{ value, about string }

// asker returns values that begin with some text. What it returns beside them is left out.
type asker func(ctx context.Context, c *client, begun string) []offer

// completeAll has the arguments and the flags of the commands below c completed, by requests to the node where it knows the values.
func (a *app) completeAll(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.completeAll(sub)
	}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) { a.completeFlag(c, f) })
	if c.HasSubCommands() && !strings.Contains(c.Use, " ") {
		return
	}
	words := argumentsOf(c)
	if len(words) == 0 {
		c.ValidArgsFunction = cobra.NoFileCompletions
		return
	}
	if !slices.ContainsFunc(words, func(word string) bool { return askerOf(c, word) != nil }) {
		return // a file, or a new name
	}
	c.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		i := min(len(args), len(words)-1)
		if len(args) > i && !strings.HasSuffix(words[i], "...") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ask := askerOf(c, words[i])
		if ask == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.offered(cmd.Context(), ask, begun, "", args)
	}
}

// argumentsOf returns the arguments of a command as its usage names them, such as ID and TARGET..., up to the first alternative.
func argumentsOf(c *cobra.Command) (words []string) {
	_, usage, _ := strings.Cut(c.Use, " ")
	usage, _, _ = strings.Cut(usage, "|")
	fields := strings.Fields(usage)
	for i := 0; i < len(fields); i++ {
		switch word := fields[i]; {
		case word == "--":
			return nil // the arguments of a program
		case word == "[flags]":
		case strings.HasPrefix(word, "--"):
			i++ // its value
		default:
			words = append(words, strings.NewReplacer("[", "", "]", "").Replace(word))
		}
	}
	return words
}

// completeFlag has the values of a flag completed.
func (a *app) completeFlag(c *cobra.Command, f *pflag.Flag) {
	ask := askerOfFlag(c, f.Name)
	fixed := fixedOf(c, f.Name)
	if ask == nil && fixed == nil {
		return
	}
	complete := func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		before := ""
		if i := strings.LastIndexByte(begun, ','); i >= 0 && f.Value.Type() == "stringSlice" {
			before, begun = begun[:i+1], begun[i+1:]
		}
		if fixed != nil {
			return shown(fixed, begun, before, strings.Split(before, ","))
		}
		return a.offered(cmd.Context(), ask, begun, before, strings.Split(before, ","))
	}
	if err := c.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
		panic(err) // there is such a flag, and it was not registered before
	}
}

// fixedOf returns the values of a flag that need no node; nil for other flags.
func fixedOf(c *cobra.Command, flag string) (all []offer) {
	var values []string
	switch flag {
	case "columns":
		return columnOffers(c)
	case "state":
		values = stateNames()
	case "storage":
		values = newnode.Storages()
	case "handler":
		if c.Name() == "init" {
			values = newnode.Handlers()
		}
	case "lang":
		values = scaffold.Languages()
	case "role":
		for _, r := range access.Roles() {
			values = append(values, string(r))
		}
	case "output":
		for _, o := range outputs() {
			values = append(values, string(o))
		}
		values = append(values, templatePrefix)
	}
	for _, v := range values {
		all = append(all, offer{value: v})
	}
	return all
}

// offered asks the node for values. A node that does not answer in time offers none: a person who types wants no message.
func (a *app) offered(ctx context.Context, ask asker, begun, before string, given []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(ctx, completionPatience)
	defer cancel()
	found := make(chan []offer, 1)
	go func() {
		c, err := a.dial() // of several addresses, it tries one after the other
		if err != nil {
			found <- nil
			return
		}
		defer c.Close()
		found <- ask(ctx, c, begun)
	}()
	select {
	case all := <-found:
		return shown(all, begun, before, given)
	case <-ctx.Done():
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// shown returns the offers that begin with some text and were not given before, as cobra takes them. Values that a shell would
// not put on one line are left out.
func shown(all []offer, begun, before string, given []string) ([]string, cobra.ShellCompDirective) {
	directive := cobra.ShellCompDirectiveNoFileComp
	var lines []string
	for _, o := range all {
		if !strings.HasPrefix(o.value, begun) || o.value == "" || clean(o.value) != o.value || slices.Contains(given, o.value) {
			continue
		}
		line := before + o.value
		if o.about != "" {
			line += "\t" + short(clean(o.about), 60)
		}
		if strings.HasSuffix(o.value, "/") || strings.HasSuffix(o.value, "=") { // more of it follows
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return slices.Compact(lines), directive
}
