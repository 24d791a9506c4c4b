package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// nameArguments makes each command below c name the argument that is missing or one too many,
// before the command checks its arguments itself.
func nameArguments(c *cobra.Command) {
	for _, sub := range c.Commands() {
		nameArguments(sub)
	}
	check := c.Args
	if check == nil || c.HasSubCommands() && !strings.Contains(c.Use, " ") { // see unknownCommand
		return
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if err := countArguments(cmd, args); err != nil {
			return err
		}
		return check(cmd, args)
	}
}

// countArguments compares the number of arguments with cmd.Use. If that has alternatives, the command
// checks them itself.
func countArguments(cmd *cobra.Command, args []string) error {
	_, usage, _ := strings.Cut(cmd.Use, " ")
	words := strings.Fields(usage)
	if slices.Contains(words, "|") {
		return nil
	}
	least, most := 0, 0
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case word == "--", word == "[flags]":
		case strings.HasPrefix(word, "--"):
			i++ // its value
		default:
			if most++; !strings.HasPrefix(word, "[") {
				if least++; len(args) < least {
					return fmt.Errorf("%s is missing; want %s %s", strings.TrimSuffix(word, "..."), cmd.CommandPath(), usage)
				}
			}
			if strings.Contains(word, "...") {
				return nil
			}
		}
	}
	if len(args) > most {
		return fmt.Errorf("%.40q is one argument too many; want %s", args[most], strings.TrimSpace(cmd.CommandPath()+" "+usage))
	}
	return nil
}
