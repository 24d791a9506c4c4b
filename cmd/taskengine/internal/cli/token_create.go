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
	var rights roleFlags
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token for clients in a file, and print it",
		Long: `Make a token in the file of api.tokens, and print it to the standard output; token add makes one
that the cluster keeps. It is printed this once: the file has its hash alone. NAME appears in
lists and in the audit log. Nodes that use the file accept the token within about two seconds;
copy the file to the nodes on other machines.

` + rolesHelp,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := flags.path(a)
			if err != nil {
				return err
			}
			text := access.NewText()
			made := access.Token{Name: args[0], Hash: access.HashOf(text), Types: rights.types, Created: time.Now().UTC().Truncate(time.Second)}
			for _, r := range rights.roles {
				made.Roles = append(made.Roles, access.Role(r))
			}
			if cmd.Flags().Changed("expires") {
				if rights.expires == 0 {
					return exit.Errorf(exit.Usage, "--expires is 0s; leave it out for a token that does not expire")
				}
				made.Expires = made.Created.Add(time.Duration(rights.expires))
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
	rights.add(cmd)
	return cmd
}
