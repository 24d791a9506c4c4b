package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/access"
)

func newTokenCreate(a *app) *cobra.Command {
	var flags tokensFlags
	var roles, types []string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token for clients, and print it",
		Long: `Make a token, and print it to the standard output. It is printed this once: the file has its
hash alone. NAME appears in lists and in the audit log. Nodes that use the file accept the
token within about two seconds; copy the file to the nodes on other machines.

Roles:
  view     see tasks without their content, types, limits and schedules
  submit   as view with content, and add tasks
  work     run tasks as a worker
  manage   as view, and change tasks, keys, types, limits, schedules and alerts
  operate  as submit and manage
  reveal   beside another role: see redacted values
  admin    everything`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := flags.path(a)
			if err != nil {
				return err
			}
			text := access.NewText()
			made := access.Token{Name: args[0], Hash: access.HashOf(text), Types: types, Created: time.Now().UTC().Truncate(time.Second)}
			for _, r := range roles {
				made.Roles = append(made.Roles, access.Role(r))
			}
			if _, err := access.NewTokens([]access.Token{made}); err != nil {
				return exit.With(exit.Usage, err)
			}
			err = access.Change(path, func(list []access.Token) ([]access.Token, error) {
				if slices.ContainsFunc(list, func(t access.Token) bool { return t.Name == made.Name }) {
					return nil, exit.Errorf(exit.Conflict, "there is a token %s; choose another name, or revoke that one", made.Name)
				}
				return append(list, made), nil
			})
			if err != nil {
				return err
			}
			if a.json() {
				return a.printJSON(tokenToJSON(made, text))
			}
			_, err = fmt.Fprintln(a.stdout, text)
			return err
		},
	}
	flags.add(cmd)
	cmd.Flags().StringSliceVar(&roles, "role", nil, "the rights of the token: view, submit, work, manage, operate, reveal or admin; may be given more than once")
	cmd.Flags().StringSliceVar(&types, "type", nil, "the types of tasks that it is for, such as mail or mail-*; may be given more than once (by default all)")
	if err := cmd.MarkFlagRequired("role"); err != nil {
		panic(err) // there is such a flag
	}
	return cmd
}
