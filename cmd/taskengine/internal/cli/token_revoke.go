package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	"github.com/taskengine/taskengine/internal/access"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

func newTokenRevoke(a *app) *cobra.Command {
	var flags tokensFlags
	var force bool
	cmd := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Revoke a token of clients",
		Long: `Revoke a token that the cluster keeps. Every node refuses it within about a second, also in open
streams. The last token that may make tokens is revoked with --force alone.

With --file or --config, remove a token from a file. Nodes that use the file refuse it within
about two seconds; copy the file to the nodes on other machines.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.isGiven() {
				return a.revokeInFile(&flags, args[0])
			}
			return a.with(func(c *client) error {
				res, err := call(cmd.Context(), c, c.RevokeToken, &taskenginev1.RevokeTokenRequest{Name: args[0], Force: force, By: operator()})
				if err != nil {
					return err
				}
				if a.json() {
					return a.printMessage(res.GetToken())
				}
				a.note("the token %s is revoked", clean(args[0]))
				return nil
			})
		},
	}
	flags.addFor(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "also the last valid token with the role admin for all types")
	return cmd
}

// revokeInFile removes a token from a file.
func (a *app) revokeInFile(flags *tokensFlags, name string) error {
	path, err := flags.path(a)
	if err != nil {
		return err
	}
	err = access.Change(path, func(list []access.Token) ([]access.Token, error) {
		at := slices.IndexFunc(list, func(t access.Token) bool { return t.Name == name })
		if at < 0 {
			return nil, exit.Errorf(exit.NotFound, "there is no token %.100q; taskengine token list --file shows which there are", name)
		}
		return slices.Delete(list, at, at+1), nil
	})
	if err != nil {
		return err
	}
	a.note("the token %s is revoked", clean(name))
	return nil
}
