package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/access"
)

func newTokenRevoke(a *app) *cobra.Command {
	var flags tokensFlags
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a token of clients",
		Long: `Remove a token from the file. Nodes that use the file refuse it within about two seconds, also
in open streams; copy the file to the nodes on other machines.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := flags.path(a)
			if err != nil {
				return err
			}
			err = access.Change(path, func(list []access.Token) ([]access.Token, error) {
				at := slices.IndexFunc(list, func(t access.Token) bool { return t.Name == args[0] })
				if at < 0 {
					return nil, exit.Errorf(exit.NotFound, "there is no token %.100q; taskengine token list shows which there are", args[0])
				}
				return slices.Delete(list, at, at+1), nil
			})
			if err != nil {
				return err
			}
			a.note("the token %s is revoked", clean(args[0]))
			return nil
		},
	}
	flags.add(cmd)
	return cmd
}
